// AdamW, float by SIMD; double forwards to the plain twin (the formula: kernel/adamw.h). Element by element.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "plumb/kernel/adamw_simd.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "plumb/kernel/adamw.h"
#include "plumb/kernel/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plumb {
namespace HWY_NAMESPACE {
namespace {

void AdamW(std::int64_t n, const AdamWStep& step, const float* g, float* p, float* m, float* v) {
  const Floats d;
  const auto grad_scale = hn::Set(d, float(step.grad_scale)), eps = hn::Set(d, float(step.eps));
  const auto beta1 = hn::Set(d, float(step.beta1)), rest1 = hn::Set(d, float(1 - step.beta1));
  const auto beta2 = hn::Set(d, float(step.beta2)), rest2 = hn::Set(d, float(1 - step.beta2));
  const auto decay = hn::Set(d, float(step.shrink));  // p - shrink p: 1 - shrink would round decay away
  const auto rate = hn::Set(d, float(step.lr / step.bias1)), unbias2 = hn::Set(d, float(1 / step.bias2));
  ForRow(Size(n), [&](std::size_t i, auto part) HWY_ATTR {
    const auto grad = hn::Mul(part.load(g + i), grad_scale);
    const auto mean = hn::MulAdd(rest1, grad, hn::Mul(beta1, part.load(m + i)));
    const auto square = hn::MulAdd(rest2, hn::Mul(grad, grad), hn::Mul(beta2, part.load(v + i)));
    const auto value = part.load(p + i), decayed = hn::NegMulAdd(decay, value, value);
    const auto root = hn::Add(hn::Sqrt(hn::Mul(square, unbias2)), eps);
    part.store(mean, m + i);
    part.store(square, v + i);
    part.store(hn::Sub(decayed, hn::Div(hn::Mul(rate, mean), root)), p + i);
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace plumb
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plumb {
namespace {
HWY_EXPORT(AdamW);
}  // namespace

template <class R>
void adamw(std::int64_t n, const AdamWStep& step, const R* g, R* p, R* m, R* v) {
  if constexpr (sizeof(R) == sizeof(double))
    plain::adamw(n, step, g, p, m, v);
  else
    HWY_DYNAMIC_DISPATCH(AdamW)(n, step, g, p, m, v);
}

template void adamw(std::int64_t, const AdamWStep&, const float*, float*, float*, float*);
template void adamw(std::int64_t, const AdamWStep&, const double*, double*, double*, double*);

}  // namespace plumb
#endif  // HWY_ONCE
