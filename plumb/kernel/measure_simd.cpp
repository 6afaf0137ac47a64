// Entropy and adjacent KL of float logits by SIMD, in double throughout: where adjacent predictions are
// nearly equal, which is when it is asked for, KL is the small difference of large sums, and float lanes
// would leave nothing of it. Doubles forward to the plain twin (measure.cpp has the formula). Largest
// elements of columns.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "plumb/kernel/measure_simd.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include <algorithm>
#include <cmath>
#include <limits>

#include "hwy/contrib/math/math-inl.h"
#include "plumb/base/error.h"
#include "plumb/kernel/measure.h"
#include "plumb/kernel/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plumb {
namespace HWY_NAMESPACE {
namespace {

using Doubles = hn::ScalableTag<double>;
using DoubleVec = hn::Vec<Doubles>;
using Narrow = hn::Rebind<float, Doubles>;  // as many floats as there are doubles in a vector

constexpr std::size_t kChains = 2;  // vectors in step: one exp is one long chain

/// Largest element. NaN may hide: the sums that follow meet it.
float LargestOf(const float* z, std::size_t n) {
  auto top = hn::Set(Floats(), -std::numeric_limits<float>::infinity());
  ForRow(n, [&](std::size_t j, auto part) HWY_ATTR {
    if constexpr (std::is_same_v<decltype(part), Whole>)
      top = hn::Max(top, part.load(z + j));
    else  // zeros beyond the row could be its largest: look at its last elements one by one
      for (; j < n; ++j) top = hn::Max(top, hn::Set(Floats(), z[j]));
  });
  return MaxLanes(Floats(), top);
}

/// Σ e^a and Σ e^a (a - b) over a row, a and b less their largest.
struct RowSums {
  DoubleVec sum[kChains], weighted[kChains];
  DoubleVec a_max, b_max;

  HWY_INLINE RowSums(float a_top, float b_top) {
    for (std::size_t k = 0; k < kChains; ++k) sum[k] = weighted[k] = hn::Zero(Doubles());
    a_max = hn::Set(Doubles(), double(a_top));
    b_max = hn::Set(Doubles(), double(b_top));
  }
  HWY_INLINE void add(std::size_t k, hn::Vec<Narrow> a, hn::Vec<Narrow> b, hn::Mask<Doubles> keep) {
    const Doubles d;
    const auto x = hn::Sub(hn::PromoteTo(d, a), a_max), y = hn::Sub(hn::PromoteTo(d, b), b_max);
    // Highway's exp gives 0 for NaN.
    const auto e = hn::IfThenElseZero(keep, hn::IfThenElse(hn::IsNaN(x), x, hn::Exp(d, x)));
    sum[k] = hn::Add(sum[k], e);
    const auto impossible = hn::Eq(e, hn::Zero(d));  // p = 0 contributes 0, also against p = 0
    weighted[k] = hn::Add(weighted[k], hn::IfThenZeroElse(impossible, hn::Mul(e, hn::Sub(x, y))));
  }
  HWY_INLINE static double total(const DoubleVec (&v)[kChains]) {
    return hn::GetLane(hn::SumOfLanes(Doubles(), hn::Add(v[0], v[1])));
  }
};

Mean AdjacentKl(View<const float> logits) {
  const Doubles d;
  const Narrow f;
  const std::size_t n = Size(logits.cols), lanes = hn::Lanes(d);
  const auto all = hn::FirstN(d, lanes);
  Mean mean;
  float before_max = 0;
  double before_log = 0;  // of row t
  for (std::int64_t t = 0; t < logits.rows; ++t) {
    const float *a = logits.row(t), *b = logits.row(t > 0 ? t - 1 : 0);
    const float a_max = LargestOf(a, n);
    RowSums s(a_max, t > 0 ? before_max : a_max);
    std::size_t j = 0;
    for (; j + kChains * lanes <= n; j += kChains * lanes)
#pragma GCC unroll 4
      for (std::size_t k = 0; k < kChains; ++k)
        s.add(k, hn::LoadU(f, a + j + k * lanes), hn::LoadU(f, b + j + k * lanes), all);
    for (; j < n; j += lanes) {
      const std::size_t left = std::min(lanes, n - j);
      s.add(0, LoadFirst(f, left, a + j), LoadFirst(f, left, b + j), hn::FirstN(d, left));
    }
    const double sum = RowSums::total(s.sum), a_log = std::log(sum);
    const double kl = RowSums::total(s.weighted) / sum - a_log + before_log;
    if (t > 0) mean.add(kl < 0 ? 0 : kl);  // rounding can leave -1e-16
    before_max = a_max, before_log = a_log;
  }
  return mean;
}

Predictions PredictionsOf(View<const float> logits) {
  const Doubles d;
  const Narrow f;
  const std::size_t n = Size(logits.cols), lanes = hn::Lanes(d);
  const auto all = hn::FirstN(d, lanes);
  const auto none = hn::Zero(f);  // instead of b: then Σ e^a a
  Predictions p;
  for (std::int64_t i = 0; i < logits.rows; ++i) {
    const float* z = logits.row(i);
    const float top = LargestOf(z, n);
    RowSums s(top, 0);
    std::size_t j = 0;
    for (; j + kChains * lanes <= n; j += kChains * lanes)
#pragma GCC unroll 4
      for (std::size_t k = 0; k < kChains; ++k) s.add(k, hn::LoadU(f, z + j + k * lanes), none, all);
    for (; j < n; j += lanes) {
      const std::size_t left = std::min(lanes, n - j);
      s.add(0, LoadFirst(f, left, z + j), none, hn::FirstN(d, left));
    }
    const double sum = RowSums::total(s.sum), log = std::log(sum);
    const double entropy = log - RowSums::total(s.weighted) / sum;
    p.entropy.add(entropy < 0 ? 0 : entropy);  // rounding can leave -1e-16
    p.log_z.add(double(top) + log);
  }
  return p;
}

Tops RaiseTops(View<const float> x, bool absolute, float* top) {
  const Floats d;
  Tops all;
  for (std::int64_t i = 0; i < x.rows; ++i) {
    const float* row = x.row(i);
    auto bad = hn::Zero(d);
    ForRow(Size(x.cols), [&](std::size_t j, auto part) HWY_ATTR {
      const auto v = part.load(row + j);
      const auto size = absolute ? hn::Abs(v) : v;
      part.store(hn::Max(part.load(top + j), size), top + j);
      all.above += static_cast<std::int64_t>(hn::CountTrue(d, hn::Gt(v, hn::Zero(d))));
      bad = hn::Or(bad, hn::VecFromMask(d, hn::IsNaN(v)));
    });
    all.nan |= !hn::AllFalse(d, hn::IsNaN(bad));  // all bits set is a NaN
  }
  return all;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace plumb
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plumb {
namespace {
HWY_EXPORT(AdjacentKl);
HWY_EXPORT(PredictionsOf);
HWY_EXPORT(RaiseTops);
}  // namespace

template <>
Mean adjacent_kl(View<const float> logits) {
  return HWY_DYNAMIC_DISPATCH(AdjacentKl)(logits);
}
template <>
Mean adjacent_kl(View<const double> logits) {
  return plain::adjacent_kl(logits);
}

Tops raise_tops(View<const float> x, bool absolute, std::span<float> top) {
  if (static_cast<std::int64_t>(top.size()) < x.cols)
    fail("[raise_tops] there is room for {} columns of {}", top.size(), x.cols);
  return HWY_DYNAMIC_DISPATCH(RaiseTops)(x, absolute, top.data());
}

template <>
Predictions predictions(View<const float> logits) {
  return HWY_DYNAMIC_DISPATCH(PredictionsOf)(logits);
}
template <>
Predictions predictions(View<const double> logits) {
  return plain::predictions(logits);
}

}  // namespace plumb
#endif  // HWY_ONCE
