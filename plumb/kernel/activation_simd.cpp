// GELU and ReLU, float by SIMD; double forwards to the plain twin (plain_activation.cpp has the formulas).
// Element by element, so any cut of a view gives the same bits.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "plumb/kernel/activation_simd.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "plumb/kernel/rows.h"
#include "plumb/kernel/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plumb {
namespace HWY_NAMESPACE {
namespace {

constexpr std::size_t kStep = 4;  // vectors in step, see Exp

struct Gelu {
  FloatVec gain;

  template <std::size_t kCount>
  HWY_INLINE void forward(FloatVec (&x)[kCount]) const {
    const Floats d;
    FloatVec cdf[kCount], bell[kCount];
    NormalCdf(d, x, cdf, bell);
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kCount; ++i) x[i] = hn::Mul(hn::Mul(x[i], cdf[i]), gain);
  }

  /// x <- gain gelu'(x), gelu'(x) = Phi(x) + x e^(-x^2 / 2) / sqrt(2 pi)
  template <std::size_t kCount>
  HWY_INLINE void slope(FloatVec (&x)[kCount]) const {
    const Floats d;
    FloatVec cdf[kCount], bell[kCount];
    NormalCdf(d, x, cdf, bell);
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kCount; ++i)
      x[i] = hn::Mul(hn::MulAdd(hn::Mul(x[i], hn::Set(d, 0.398942280f)), bell[i], cdf[i]), gain);
  }
};

struct Relu {
  FloatVec gain;

  template <std::size_t kCount>
  HWY_INLINE void forward(FloatVec (&x)[kCount]) const {
    const Floats d;
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kCount; ++i)
      x[i] = hn::Mul(hn::IfThenZeroElse(hn::Le(x[i], hn::Zero(d)), x[i]), gain);
  }

  /// x <- gain where x > 0, 0 where x <= 0, NaN where x is
  template <std::size_t kCount>
  HWY_INLINE void slope(FloatVec (&x)[kCount]) const {
    const Floats d;
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kCount; ++i)
      x[i] = hn::IfThenElse(hn::Gt(x[i], hn::Zero(d)), gain,
                            hn::IfThenZeroElse(hn::Le(x[i], hn::Zero(d)), x[i]));
  }
};

/// y = f(x), kCount vectors from column j.
template <std::size_t kCount, class Part, class F>
HWY_INLINE void ForwardStep(const F& f, Part part, const float* x, float* y) {
  const std::size_t lanes = hn::Lanes(Floats());
  FloatVec v[kCount];
#pragma GCC unroll 8
  for (std::size_t i = 0; i < kCount; ++i) v[i] = part.load(x + i * lanes);
  f.forward(v);
#pragma GCC unroll 8
  for (std::size_t i = 0; i < kCount; ++i) part.store(v[i], y + i * lanes);
}

/// A contiguous view as one long row.
template <class R>
View<R> Flat(View<R> x) {
  return {x.data, 1, x.size(), x.size()};
}

template <class F>
HWY_INLINE void Forward(const F& f, View<const float> x, View<float> y) {
  if (x.contiguous() && y.contiguous()) x = Flat(x), y = Flat(y);
  const std::size_t lanes = hn::Lanes(Floats()), n = Size(x.cols), step = kStep * lanes;
  for (std::int64_t i = 0; i < x.rows; ++i) {
    const float* from = x.row(i);
    float* to = y.row(i);
    std::size_t j = 0;
    for (; j + step <= n; j += step) ForwardStep<kStep>(f, Whole(), from + j, to + j);
    for (; j + lanes <= n; j += lanes) ForwardStep<1>(f, Whole(), from + j, to + j);
    if (j < n) ForwardStep<1>(f, First{n - j}, from + j, to + j);
  }
}

/// dx (=|+=) dy f'(x), kCount vectors from column j.
template <std::size_t kCount, class Part, class F>
HWY_INLINE void BackwardStep(const F& f, Part part, const float* dy, const float* x, bool overwrite,
                             float* dx) {
  const std::size_t lanes = hn::Lanes(Floats());
  FloatVec v[kCount];
#pragma GCC unroll 8
  for (std::size_t i = 0; i < kCount; ++i) v[i] = part.load(x + i * lanes);
  f.slope(v);
#pragma GCC unroll 8
  for (std::size_t i = 0; i < kCount; ++i)
    Put(part, overwrite, hn::Mul(part.load(dy + i * lanes), v[i]), dx + i * lanes);
}

template <class F>
HWY_INLINE void Backward(const F& f, View<const float> dy, View<const float> x, Sink<float> dx) {
  if (!dx) return;
  if (dy.contiguous() && x.contiguous() && dx.v.contiguous()) dy = Flat(dy), x = Flat(x), dx.v = Flat(dx.v);
  const std::size_t lanes = hn::Lanes(Floats()), n = Size(x.cols), step = kStep * lanes;
  for (std::int64_t i = 0; i < x.rows; ++i) {
    const float *grad = dy.row(i), *at = x.row(i);
    float* to = dx.v.row(i);
    std::size_t j = 0;
    for (; j + step <= n; j += step) BackwardStep<kStep>(f, Whole(), grad + j, at + j, dx.overwrite, to + j);
    for (; j + lanes <= n; j += lanes) BackwardStep<1>(f, Whole(), grad + j, at + j, dx.overwrite, to + j);
    if (j < n) BackwardStep<1>(f, First{n - j}, grad + j, at + j, dx.overwrite, to + j);
  }
}

void GeluForward(View<const float> x, double gain, View<float> y) {
  Forward(Gelu{hn::Set(Floats(), float(gain))}, x, y);
}
void GeluBackward(View<const float> dy, View<const float> x, double gain, Sink<float> dx) {
  Backward(Gelu{hn::Set(Floats(), float(gain))}, dy, x, dx);
}
void ReluForward(View<const float> x, double gain, View<float> y) {
  Forward(Relu{hn::Set(Floats(), float(gain))}, x, y);
}
void ReluBackward(View<const float> dy, View<const float> x, double gain, Sink<float> dx) {
  Backward(Relu{hn::Set(Floats(), float(gain))}, dy, x, dx);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace plumb
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plumb {
namespace {
HWY_EXPORT(GeluForward);
HWY_EXPORT(GeluBackward);
HWY_EXPORT(ReluForward);
HWY_EXPORT(ReluBackward);
template <class R>
constexpr bool kPlain = sizeof(R) == sizeof(double);
}  // namespace

template <class R>
void gelu_forward(View<const R> x, double gain, View<R> y) {
  if constexpr (kPlain<R>)
    plain::gelu_forward(x, gain, y);
  else
    HWY_DYNAMIC_DISPATCH(GeluForward)(x, gain, y);
}

template <class R>
void gelu_backward(View<const R> dy, View<const R> x, double gain, Sink<R> dx) {
  if constexpr (kPlain<R>)
    plain::gelu_backward(dy, x, gain, dx);
  else
    HWY_DYNAMIC_DISPATCH(GeluBackward)(dy, x, gain, dx);
}

template <class R>
void relu_forward(View<const R> x, double gain, View<R> y) {
  if constexpr (kPlain<R>)
    plain::relu_forward(x, gain, y);
  else
    HWY_DYNAMIC_DISPATCH(ReluForward)(x, gain, y);
}

template <class R>
void relu_backward(View<const R> dy, View<const R> x, double gain, Sink<R> dx) {
  if constexpr (kPlain<R>)
    plain::relu_backward(dy, x, gain, dx);
  else
    HWY_DYNAMIC_DISPATCH(ReluBackward)(dy, x, gain, dx);
}

#define PLUMB_INSTANTIATE(R)                                                  \
  template void gelu_forward(View<const R>, double, View<R>);                 \
  template void gelu_backward(View<const R>, View<const R>, double, Sink<R>); \
  template void relu_forward(View<const R>, double, View<R>);                 \
  template void relu_backward(View<const R>, View<const R>, double, Sink<R>);
PLUMB_INSTANTIATE(float)
PLUMB_INSTANTIATE(double)
#undef PLUMB_INSTANTIATE

}  // namespace plumb
#endif  // HWY_ONCE
