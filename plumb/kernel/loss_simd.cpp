// Softmax cross-entropy, float by SIMD; double forwards to the plain twin (plain_loss.cpp has the formulas).
// A row's e^(z
// - max) are summed in float lanes; its logarithm, and the loss over rows, in double.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "plumb/kernel/loss_simd.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include <cmath>
#include <limits>

#include "plumb/kernel/rows.h"
#include "plumb/kernel/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plumb {
namespace HWY_NAMESPACE {
namespace {

constexpr std::size_t kStep = 4;  // vectors in step, see Exp

float RowMax(const float* z, std::size_t n) {
  const Floats d;
  const auto lowest = hn::Set(d, -std::numeric_limits<float>::infinity());
  FloatVec top[kStep] = {lowest, lowest, lowest, lowest};
  const std::size_t lanes = hn::Lanes(d), step = kStep * lanes;
  std::size_t j = 0;
  for (; j + step <= n; j += step)
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kStep; ++i) top[i] = hn::Max(top[i], hn::LoadU(d, z + j + i * lanes));
  for (; j + lanes <= n; j += lanes) top[0] = hn::Max(top[0], hn::LoadU(d, z + j));
  if (j < n)
    top[1] = hn::Max(top[1], hn::IfThenElse(hn::FirstN(d, n - j), LoadFirst(d, n - j, z + j), lowest));
  return MaxLanes(d, hn::Max(hn::Max(top[0], top[1]), hn::Max(top[2], top[3])));
}

/// Calls f(v, part, j) with v[i] = e^(z[j + i lanes] - shift) over the row, kStep vectors in step or one.
template <class F>
HWY_INLINE void ForExp(const float* z, std::size_t n, float shift, F f) {
  const Floats d;
  const auto shifts = hn::Set(d, shift);
  const std::size_t lanes = hn::Lanes(d), step = kStep * lanes;
  FloatVec many[kStep], one[1];
  std::size_t j = 0;
  for (; j + step <= n; j += step) {
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kStep; ++i) many[i] = hn::Sub(hn::LoadU(d, z + j + i * lanes), shifts);
    Exp(d, many);
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kStep; ++i) f(many[i], Whole(), i, j + i * lanes);
  }
  for (; j + lanes <= n; j += lanes) {
    one[0] = hn::Sub(hn::LoadU(d, z + j), shifts);
    Exp(d, one);
    f(one[0], Whole(), 0, j);
  }
  if (j < n) {
    one[0] = hn::Sub(LoadFirst(d, n - j, z + j), shifts);
    Exp(d, one);
    f(one[0], First{n - j}, 1, j);
  }
}

double CrossEntropyForward(View<const float> logits, std::span<const std::int32_t> target,
                           std::int64_t ignore_index, View<float> lse) {
  const Floats d;
  double loss = 0;
  for (std::int64_t i = 0; i < logits.rows; ++i) {
    const float* z = logits.row(i);
    const float top = RowMax(z, Size(logits.cols));
    FloatVec sum[kStep] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
    ForExp(z, Size(logits.cols), top, [&](FloatVec e, auto part, std::size_t k, std::size_t) HWY_ATTR {
      sum[k] = hn::Add(sum[k], part.keep(e));
    });
    const double total =
        double(SumLanes(d, hn::Add(sum[0], sum[1]))) + double(SumLanes(d, hn::Add(sum[2], sum[3])));
    const double log_total = std::log(total);
    *lse.row(i) = float(double(top) + log_total);
    const std::int64_t t = target[Size(i)];
    if (t != ignore_index) loss += log_total + (double(top) - double(z[t]));
  }
  return loss;
}

/// Sum of e^(z - lse): 1, but for the rounding of lse to float.
double SumOfSoftmax(const float* z, std::size_t n, float lse) {
  const Floats d;
  auto sum = hn::Zero(d);
  ForExp(z, n, lse,
         [&](FloatVec e, auto part, std::size_t, std::size_t) HWY_ATTR { sum = hn::Add(sum, part.keep(e)); });
  return double(SumLanes(d, sum));
}

void CrossEntropyBackward(View<const float> logits, std::span<const std::int32_t> target,
                          std::int64_t ignore_index, View<const float> lse, double scale,
                          Sink<float> dlogits) {
  constexpr float kCoarse =
      64;  // from here on the rounding of lse shows: e^(half an ulp) - 1 is above 3.8e-6
  if (!dlogits) return;
  const std::size_t n = Size(logits.cols);
  for (std::int64_t i = 0; i < logits.rows; ++i) {
    const std::int64_t t = target[Size(i)];
    const float* z = logits.row(i);
    const float shift = *lse.row(i);
    float* out = dlogits.v.row(i);
    if (t == ignore_index) {
      if (dlogits.overwrite) std::memset(out, 0, n * sizeof(float));
      continue;
    }
    const bool coarse = !(shift > -kCoarse && shift < kCoarse);
    const auto factor = hn::Set(Floats(), float(coarse ? scale / SumOfSoftmax(z, n, shift) : scale));
    ForExp(z, n, shift, [&](FloatVec p, auto part, std::size_t, std::size_t j) HWY_ATTR {
      Put(part, dlogits.overwrite, hn::Mul(p, factor), out + j);
    });
    out[t] -= float(scale);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace plumb
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plumb {
namespace {
HWY_EXPORT(CrossEntropyForward);
HWY_EXPORT(CrossEntropyBackward);
}  // namespace

template <class R>
double cross_entropy_forward(View<const R> logits, std::span<const std::int32_t> target,
                             std::int64_t ignore_index, View<R> lse) {
  if constexpr (sizeof(R) == sizeof(double))
    return plain::cross_entropy_forward(logits, target, ignore_index, lse);
  else
    return HWY_DYNAMIC_DISPATCH(CrossEntropyForward)(logits, target, ignore_index, lse);
}

template <class R>
void cross_entropy_backward(View<const R> logits, std::span<const std::int32_t> target,
                            std::int64_t ignore_index, View<const R> lse, double scale, Sink<R> dlogits) {
  if constexpr (sizeof(R) == sizeof(double))
    plain::cross_entropy_backward(logits, target, ignore_index, lse, scale, dlogits);
  else
    HWY_DYNAMIC_DISPATCH(CrossEntropyBackward)(logits, target, ignore_index, lse, scale, dlogits);
}

#define PLUMB_INSTANTIATE(R)                                                                        \
  template double cross_entropy_forward(View<const R>, std::span<const std::int32_t>, std::int64_t, \
                                        View<R>);                                                   \
  template void cross_entropy_backward(View<const R>, std::span<const std::int32_t>, std::int64_t,  \
                                       View<const R>, double, Sink<R>);
PLUMB_INSTANTIATE(float)
PLUMB_INSTANTIATE(double)
#undef PLUMB_INSTANTIATE

}  // namespace plumb
#endif  // HWY_ONCE
