// Chains of fused multiply-adds, as many as hide the latency of every processor we know, and nothing else.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "plumb/kernel/peak.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <chrono>

HWY_BEFORE_NAMESPACE();
namespace plumb {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Twelve accumulators live in registers: 12 x lanes x 2 FLOPs a round.
float FmaRounds(long rounds, double* flops) {
  const hn::ScalableTag<float> d;
  const auto m = hn::Set(d, 0.999f), c = hn::Set(d, 0.001f);
  auto a0 = hn::Set(d, 0.0f), a1 = hn::Set(d, 0.1f), a2 = hn::Set(d, 0.2f), a3 = hn::Set(d, 0.3f);
  auto a4 = hn::Set(d, 0.4f), a5 = hn::Set(d, 0.5f), a6 = hn::Set(d, 0.6f), a7 = hn::Set(d, 0.7f);
  auto a8 = hn::Set(d, 0.8f), a9 = hn::Set(d, 0.9f), b0 = hn::Set(d, 1.0f), b1 = hn::Set(d, 1.1f);
  for (long i = 0; i < rounds; ++i) {
    a0 = hn::MulAdd(a0, m, c), a1 = hn::MulAdd(a1, m, c), a2 = hn::MulAdd(a2, m, c), a3 = hn::MulAdd(a3, m, c);
    a4 = hn::MulAdd(a4, m, c), a5 = hn::MulAdd(a5, m, c), a6 = hn::MulAdd(a6, m, c), a7 = hn::MulAdd(a7, m, c);
    a8 = hn::MulAdd(a8, m, c), a9 = hn::MulAdd(a9, m, c), b0 = hn::MulAdd(b0, m, c), b1 = hn::MulAdd(b1, m, c);
  }
  *flops = 12.0 * 2.0 * static_cast<double>(hn::Lanes(d)) * static_cast<double>(rounds);
  const auto s = hn::Add(hn::Add(hn::Add(a0, a1), hn::Add(a2, a3)),
                         hn::Add(hn::Add(hn::Add(a4, a5), hn::Add(a6, a7)), hn::Add(hn::Add(a8, a9), hn::Add(b0, b1))));
  return hn::GetLane(s);
}

}  // namespace HWY_NAMESPACE
}  // namespace plumb
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plumb {
HWY_EXPORT(FmaRounds);

std::string simd_target() {
  const auto supported = static_cast<std::uint64_t>(hwy::SupportedTargets()) & HWY_TARGETS;
  return hwy::TargetName(static_cast<std::int64_t>(supported & (~supported + 1)));  // the lowest bit is the best target
}

double fma_seconds(long rounds, double* flops) {
  const auto t = std::chrono::steady_clock::now();
  volatile float keep = HWY_DYNAMIC_DISPATCH(FmaRounds)(rounds, flops);
  (void)keep;
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - t).count();
}

}  // namespace plumb
#endif
