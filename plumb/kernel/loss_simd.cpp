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

/// Sum of a row, in four running sums of double lanes.
double RowSum(const float* z, std::size_t n) {
  double s[4] = {0, 0, 0, 0};
  std::size_t j = 0;
  for (; j + 4 <= n; j += 4)
    for (std::size_t k = 0; k < 4; ++k) s[k] += double(z[j + k]);
  for (; j < n; ++j) s[0] += double(z[j]);
  return (s[0] + s[1]) + (s[2] + s[3]);
}

double Terms(View<const float> logits, std::span<const std::int32_t> target, std::int64_t ignore_index,
             View<const float> lse, const LossTerms& terms) {
  double sum = 0;
  for (std::int64_t i = 0; i < logits.rows; ++i) {
    const std::int64_t t = target[Size(i)];
    if (t == ignore_index) continue;
    const double l = double(*lse.row(i));
    if (terms.z_loss != 0) sum += terms.z_loss * l * l;
    if (terms.label_smoothing != 0)
      sum += terms.label_smoothing *
             (double(logits.row(i)[t]) - RowSum(logits.row(i), Size(logits.cols)) / double(logits.cols));
  }
  return sum;
}

void CrossEntropyBackward(View<const float> logits, std::span<const std::int32_t> target,
                          std::int64_t ignore_index, View<const float> lse, double scale, Sink<float> dlogits,
                          const LossTerms& terms) {
  constexpr float kCoarse =
      64;  // from here on the rounding of lse shows: e^(half an ulp) - 1 is above 3.8e-6
  if (!dlogits) return;
  const std::size_t n = Size(logits.cols);
  const auto spread = hn::Set(Floats(), float(scale * terms.label_smoothing / double(logits.cols)));
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
    const double tilt = scale * (1 + 2 * terms.z_loss * double(shift));
    const auto factor = hn::Set(Floats(), float(coarse ? tilt / SumOfSoftmax(z, n, shift) : tilt));
    ForExp(z, n, shift, [&](FloatVec p, auto part, std::size_t, std::size_t j) HWY_ATTR {
      Put(part, dlogits.overwrite, hn::Sub(hn::Mul(p, factor), spread), out + j);
    });
    out[t] -= float(scale * (1 - terms.label_smoothing));
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
HWY_EXPORT(Terms);
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
                            std::int64_t ignore_index, View<const R> lse, double scale, Sink<R> dlogits,
                            const LossTerms& terms) {
  if constexpr (sizeof(R) == sizeof(double))
    plain::cross_entropy_backward(logits, target, ignore_index, lse, scale, dlogits, terms);
  else
    HWY_DYNAMIC_DISPATCH(CrossEntropyBackward)(logits, target, ignore_index, lse, scale, dlogits, terms);
}

template <class R>
double loss_terms(View<const R> logits, std::span<const std::int32_t> target, std::int64_t ignore_index,
                  View<const R> lse, const LossTerms& terms) {
  if constexpr (sizeof(R) == sizeof(double))
    return plain::loss_terms(logits, target, ignore_index, lse, terms);
  else
    return HWY_DYNAMIC_DISPATCH(Terms)(logits, target, ignore_index, lse, terms);
}

#define PLUMB_INSTANTIATE(R)                                                                            \
  template double cross_entropy_forward(View<const R>, std::span<const std::int32_t>, std::int64_t,     \
                                        View<R>);                                                       \
  template void cross_entropy_backward(View<const R>, std::span<const std::int32_t>, std::int64_t,      \
                                       View<const R>, double, Sink<R>, const LossTerms&);               \
  template double loss_terms(View<const R>, std::span<const std::int32_t>, std::int64_t, View<const R>, \
                             const LossTerms&);
PLUMB_INSTANTIATE(float)
PLUMB_INSTANTIATE(double)
#undef PLUMB_INSTANTIATE

}  // namespace plumb
#endif  // HWY_ONCE
