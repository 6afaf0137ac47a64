// Dropout's factors, many blocks of Philox4x32-10 (base/rng.h) side by side; float. Double takes the plain twin.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "plumb/kernel/dropout_simd.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include <algorithm>

#include "hwy/highway.h"
#include "plumb/kernel/dropout.h"

HWY_BEFORE_NAMESPACE();
namespace plumb {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Words = hn::ScalableTag<std::uint32_t>;
using WordVec = hn::Vec<Words>;

/// High and low words of m x.
HWY_INLINE void Multiply(std::uint32_t m, WordVec x, WordVec& high, WordVec& low) {
  const Words d;
  const auto factor = hn::Set(d, m);
  low = hn::Mul(x, factor);
#if HWY_TARGET == HWY_SCALAR
  high = hn::Set(d, static_cast<std::uint32_t>(std::uint64_t{m} * hn::GetLane(x) >> 32));
#else
  const hn::RepartitionToWide<Words> wide;
  const auto even = hn::MulEven(x, factor);
  const auto odd = hn::MulEven(hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(wide, x))), factor);
  high = hn::OddEven(hn::BitCast(d, odd), hn::BitCast(d, hn::ShiftRight<32>(even)));
#endif
}

void Factors(const Dropout& dropout, std::int64_t sample, std::int64_t first, std::span<float> out) {
  const Words d;
  const hn::Rebind<float, Words> floats;
  const std::size_t lanes = hn::Lanes(d);
  const auto step = static_cast<std::uint64_t>(dropout.step);
  const auto of = static_cast<std::uint64_t>(dropout.first_sample + sample);
  const auto threshold = hn::Set(d, dropout.threshold());
  const auto kept = hn::Set(floats, static_cast<float>(dropout.kept()));
  // Stream::at's counter, with its high word, which the blocks of one vector may not share at a multiple of 2^32.
  const std::uint64_t above = (step >> 32 & 0x3ff) << 22 | (of >> 32 & 0x3ff) << 12;
  HWY_ALIGN float last[4 * hn::MaxLanes(d)];
  for (std::size_t i = 0; i < out.size(); i += 4 * lanes) {
    const std::uint64_t block = static_cast<std::uint64_t>(first) / 4 + i / 4;
    const std::uint64_t end = block + lanes - 1;
    if (block >> 32 != end >> 32) {
      plain::dropout_factors(dropout, sample, first + static_cast<std::int64_t>(i),
                             out.subspan(i, std::min(4 * lanes, out.size() - i)));
      continue;
    }
    WordVec c0 = hn::Iota(d, static_cast<std::uint32_t>(block)),
            c1 = hn::Set(d, static_cast<std::uint32_t>(of));
    WordVec c2 = hn::Set(d, static_cast<std::uint32_t>(step));
    WordVec c3 = hn::Set(d, static_cast<std::uint32_t>(above | (block >> 32 & 0xfff)));
    auto key = dropout.draws.key;
    for (int round = 0; round < 10; ++round, key[0] += 0x9e3779b9U, key[1] += 0xbb67ae85U) {
      WordVec high0, low0, high1, low1;
      Multiply(0xd2511f53U, c0, high0, low0);
      Multiply(0xcd9e8d57U, c2, high1, low1);
      c0 = hn::Xor(hn::Xor(high1, c1), hn::Set(d, key[0]));
      c2 = hn::Xor(hn::Xor(high0, c3), hn::Set(d, key[1]));
      c1 = low1, c3 = low0;
    }
    const auto factor = [&](WordVec word) {
      return hn::IfThenZeroElse(hn::RebindMask(floats, hn::Lt(word, threshold)), kept);
    };
    const bool whole = i + 4 * lanes <= out.size();
    hn::StoreInterleaved4(factor(c0), factor(c1), factor(c2), factor(c3), floats,
                          whole ? out.data() + i : last);
    if (!whole) std::copy_n(last, out.size() - i, out.data() + i);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace plumb
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plumb {
namespace {
HWY_EXPORT(Factors);
}  // namespace

template <class R>
void dropout_factors(const Dropout& d, std::int64_t sample, std::int64_t first, std::span<R> out) {
  if constexpr (sizeof(R) == sizeof(double))
    plain::dropout_factors(d, sample, first, out);
  else
    HWY_DYNAMIC_DISPATCH(Factors)(d, sample, first, out);
}

template void dropout_factors(const Dropout&, std::int64_t, std::int64_t, std::span<float>);
template void dropout_factors(const Dropout&, std::int64_t, std::int64_t, std::span<double>);

}  // namespace plumb
#endif  // HWY_ONCE
