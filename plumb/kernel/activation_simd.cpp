// Activations and their gated form, float by SIMD; double forwards to the plain twin (plain_activation.cpp
// has the formulas). Element by element, so any cut of a view gives the same bits.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "plumb/kernel/activation_simd.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/contrib/math/math-inl.h"
#include "plumb/kernel/activation.h"
#include "plumb/kernel/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plumb {
namespace HWY_NAMESPACE {
namespace {

constexpr std::size_t kStep = 4;  // vectors in step, see Exp

// Each: forward x <- act(x); slope x <- act'(x); both at once, where they share work.

struct Gelu {
  template <std::size_t kCount>
  HWY_INLINE void forward(FloatVec (&x)[kCount]) const {
    FloatVec cdf[kCount], bell[kCount];
    NormalCdf(Floats(), x, cdf, bell);
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kCount; ++i) x[i] = hn::Mul(x[i], cdf[i]);
  }

  /// gelu'(x) = Phi(x) + x e^(-x^2 / 2) / sqrt(2 pi)
  template <std::size_t kCount>
  HWY_INLINE void both(const FloatVec (&x)[kCount], FloatVec (&y)[kCount], FloatVec (&slope)[kCount]) const {
    const Floats d;
    FloatVec bell[kCount];
    NormalCdf(d, x, y, bell);
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kCount; ++i) {
      slope[i] = hn::MulAdd(hn::Mul(x[i], hn::Set(d, 0.398942280f)), bell[i], y[i]);
      y[i] = hn::Mul(x[i], y[i]);
    }
  }
};

/// s[i] = 1 / (1 + e^-x[i]); 0 below -87.3.
template <std::size_t kCount>
HWY_INLINE void Sigmoid(const FloatVec (&x)[kCount], FloatVec (&s)[kCount]) {
  const Floats d;
  const auto one = hn::Set(d, 1.0f);
#pragma GCC unroll 8
  for (std::size_t i = 0; i < kCount; ++i) s[i] = hn::Neg(hn::Abs(x[i]));
  Exp(d, s);
#pragma GCC unroll 8
  for (std::size_t i = 0; i < kCount; ++i)
    s[i] = hn::Div(hn::IfThenElse(hn::Lt(x[i], hn::Zero(d)), s[i], one), hn::Add(one, s[i]));
}

struct Silu {
  template <std::size_t kCount>
  HWY_INLINE void forward(FloatVec (&x)[kCount]) const {
    FloatVec s[kCount];
    Sigmoid(x, s);
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kCount; ++i) x[i] = hn::Mul(x[i], s[i]);
  }

  template <std::size_t kCount>
  HWY_INLINE void both(const FloatVec (&x)[kCount], FloatVec (&y)[kCount], FloatVec (&slope)[kCount]) const {
    const auto one = hn::Set(Floats(), 1.0f);
    Sigmoid(x, y);
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kCount; ++i) {
      slope[i] = hn::Mul(y[i], hn::MulAdd(x[i], hn::Sub(one, y[i]), one));
      y[i] = hn::Mul(x[i], y[i]);
    }
  }
};

struct GeluTanh {
  /// 2u = c (x + 0.044715 x^3) and its slope, where |x| <= 12: beyond it s(2u) is 0 or 1 to the last bit.
  template <std::size_t kCount>
  static HWY_INLINE void Twice(const FloatVec (&x)[kCount], FloatVec (&u)[kCount],
                               FloatVec (&slope)[kCount]) {
    const Floats d;
    constexpr float c = 1.59576912f;
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kCount; ++i) {
      const auto near = hn::Min(hn::Max(x[i], hn::Set(d, -12.0f)), hn::Set(d, 12.0f));
      const auto square = hn::Mul(near, near);
      u[i] = hn::Mul(near, hn::MulAdd(square, hn::Set(d, c * 0.044715f), hn::Set(d, c)));
      slope[i] = hn::MulAdd(square, hn::Set(d, 3 * c * 0.044715f), hn::Set(d, c));
    }
  }

  template <std::size_t kCount>
  HWY_INLINE void forward(FloatVec (&x)[kCount]) const {
    FloatVec u[kCount], s[kCount];
    Twice(x, u, s);
    Sigmoid(u, s);
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kCount; ++i) x[i] = hn::Mul(x[i], s[i]);
  }

  template <std::size_t kCount>
  HWY_INLINE void both(const FloatVec (&x)[kCount], FloatVec (&y)[kCount], FloatVec (&slope)[kCount]) const {
    const auto one = hn::Set(Floats(), 1.0f);
    FloatVec u[kCount];
    Twice(x, u, slope);
    Sigmoid(u, y);
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kCount; ++i) {
      slope[i] = hn::Mul(y[i], hn::MulAdd(hn::Mul(x[i], hn::Sub(one, y[i])), slope[i], one));
      y[i] = hn::Mul(x[i], y[i]);
    }
  }
};

/// Leaky ReLU; ReLU has below = 0. NaN where x is.
struct Rectifier {
  FloatVec below;  // the slope under 0

  template <std::size_t kCount>
  HWY_INLINE void forward(FloatVec (&x)[kCount]) const {
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kCount; ++i) x[i] = value(x[i]);
  }

  template <std::size_t kCount>
  HWY_INLINE void both(const FloatVec (&x)[kCount], FloatVec (&y)[kCount], FloatVec (&slope)[kCount]) const {
    const Floats d;
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kCount; ++i) {
      y[i] = value(x[i]);
      slope[i] = hn::IfThenElse(hn::Gt(x[i], hn::Zero(d)), hn::Set(d, 1.0f),
                                hn::IfThenElse(hn::Le(x[i], hn::Zero(d)), below, x[i]));
    }
  }

 private:
  HWY_INLINE FloatVec value(FloatVec x) const {
    const Floats d;
    const auto zero = hn::Zero(d);
    // not below * x alone: 0 * -inf
    const auto under = hn::IfThenZeroElse(hn::Eq(below, zero), hn::Mul(below, x));
    return hn::IfThenElse(hn::Le(x, zero), under, x);
  }
};

struct TanhAct {
  template <std::size_t kCount>
  HWY_INLINE void forward(FloatVec (&x)[kCount]) const {
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kCount; ++i) x[i] = value(x[i]);
  }

  template <std::size_t kCount>
  HWY_INLINE void both(const FloatVec (&x)[kCount], FloatVec (&y)[kCount], FloatVec (&slope)[kCount]) const {
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kCount; ++i) {
      y[i] = value(x[i]);
      slope[i] = hn::NegMulAdd(y[i], y[i], hn::Set(Floats(), 1.0f));
    }
  }

 private:
  static HWY_INLINE FloatVec value(FloatVec x) {
    return hn::IfThenElse(hn::IsNaN(x), x, hn::Tanh(Floats(), x));
  }
};

/// A contiguous view as one long row.
template <class R>
View<R> Flat(View<R> x) {
  return {x.data, 1, x.size(), x.size()};
}

/// Calls f(row, column, part, vectors in step) over all of a view of (rows, cols).
template <class F>
HWY_INLINE void ForSteps(std::int64_t rows, std::int64_t cols, const F& f) {
  const std::size_t lanes = hn::Lanes(Floats()), n = Size(cols), step = kStep * lanes;
  for (std::int64_t i = 0; i < rows; ++i) {
    std::size_t j = 0;
    for (; j + step <= n; j += step) f(i, j, Whole(), std::integral_constant<std::size_t, kStep>());
    for (; j + lanes <= n; j += lanes) f(i, j, Whole(), std::integral_constant<std::size_t, 1>());
    if (j < n) f(i, j, First{n - j}, std::integral_constant<std::size_t, 1>());
  }
}

template <std::size_t kCount, class Part>
HWY_INLINE void LoadStep(Part part, const float* p, FloatVec (&v)[kCount]) {
#pragma GCC unroll 8
  for (std::size_t i = 0; i < kCount; ++i) v[i] = part.load(p + i * hn::Lanes(Floats()));
}

/// y = gain act(x), times `up` where there is one.
template <class F>
HWY_INLINE void Forward(const F& f, float gain, View<const float> x, View<const float> up, View<float> y) {
  if (x.contiguous() && y.contiguous() && (!up || up.contiguous())) {
    x = Flat(x), y = Flat(y);
    if (up) up = Flat(up);
  }
  const std::size_t lanes = hn::Lanes(Floats());
  const auto by = hn::Set(Floats(), gain);
  ForSteps(x.rows, x.cols, [&](std::int64_t i, std::size_t j, auto part, auto count) HWY_ATTR {
    constexpr std::size_t kCount = decltype(count)::value;
    FloatVec v[kCount];
    LoadStep(part, x.row(i) + j, v);
    f.forward(v);
#pragma GCC unroll 8
    for (std::size_t k = 0; k < kCount; ++k) {
      auto out = hn::Mul(v[k], by);
      if (up) out = hn::Mul(out, part.load(up.row(i) + j + k * lanes));
      part.store(out, y.row(i) + j + k * lanes);
    }
  });
}

/// dx (=|+=) gain dy act'(x), times `up` and dup (=|+=) gain dy act(x) where there is one.
template <class F>
HWY_INLINE void Backward(const F& f, float gain, View<const float> dy, View<const float> x,
                         View<const float> up, Sink<float> dx, Sink<float> dup) {
  if (!dx && !dup) return;
  const auto whole = [](const auto& v) { return !v || v.contiguous(); };
  if (dy.contiguous() && x.contiguous() && whole(up) && whole(dx.v) && whole(dup.v)) {
    dy = Flat(dy), x = Flat(x);
    if (up) up = Flat(up);
    if (dx) dx.v = Flat(dx.v);
    if (dup) dup.v = Flat(dup.v);
  }
  const std::size_t lanes = hn::Lanes(Floats());
  const auto by = hn::Set(Floats(), gain);
  ForSteps(x.rows, x.cols, [&](std::int64_t i, std::size_t j, auto part, auto count) HWY_ATTR {
    constexpr std::size_t kCount = decltype(count)::value;
    FloatVec v[kCount], y[kCount], slope[kCount];
    LoadStep(part, x.row(i) + j, v);
    f.both(v, y, slope);
#pragma GCC unroll 8
    for (std::size_t k = 0; k < kCount; ++k) {
      const std::size_t at = j + k * lanes;
      const auto d = part.load(dy.row(i) + at);
      auto g = hn::Mul(d, hn::Mul(slope[k], by));
      if (up) g = hn::Mul(g, part.load(up.row(i) + at));
      if (dx) Put(part, dx.overwrite, g, dx.v.row(i) + at);
      if (dup) Put(part, dup.overwrite, hn::Mul(d, hn::Mul(y[k], by)), dup.v.row(i) + at);
    }
  });
}

template <class F>
HWY_INLINE void With(const Activation& a, const F& f) {
  switch (a.act) {
    case Act::gelu:
      return f(Gelu());
    case Act::gelu_tanh:
      return f(GeluTanh());
    case Act::relu:
      return f(Rectifier{hn::Zero(Floats())});
    case Act::leaky_relu:
      return f(Rectifier{hn::Set(Floats(), float(a.slope))});
    case Act::silu:
      return f(Silu());
    case Act::tanh:
      return f(TanhAct());
  }
}

void ActForward(const Activation& a, View<const float> x, View<const float> up, View<float> y) {
  With(a, [&](const auto& f) HWY_ATTR { Forward(f, float(a.gain), x, up, y); });
}

void ActBackward(const Activation& a, View<const float> dy, View<const float> x, View<const float> up,
                 Sink<float> dx, Sink<float> dup) {
  With(a, [&](const auto& f) HWY_ATTR { Backward(f, float(a.gain), dy, x, up, dx, dup); });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace plumb
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plumb {
namespace {
HWY_EXPORT(ActForward);
HWY_EXPORT(ActBackward);
template <class R>
constexpr bool kPlain = sizeof(R) == sizeof(double);
}  // namespace

template <class R>
void activation_forward(const Activation& a, View<const R> x, View<R> y) {
  if constexpr (kPlain<R>)
    plain::activation_forward(a, x, y);
  else
    HWY_DYNAMIC_DISPATCH(ActForward)(a, x, {}, y);
}

template <class R>
void activation_backward(const Activation& a, View<const R> dy, View<const R> x, Sink<R> dx) {
  if constexpr (kPlain<R>)
    plain::activation_backward(a, dy, x, dx);
  else
    HWY_DYNAMIC_DISPATCH(ActBackward)(a, dy, x, {}, dx, {});
}

template <class R>
void gated_forward(const Activation& a, View<const R> gate, View<const R> up, View<R> y) {
  if constexpr (kPlain<R>)
    plain::gated_forward(a, gate, up, y);
  else
    HWY_DYNAMIC_DISPATCH(ActForward)(a, gate, up, y);
}

template <class R>
void gated_backward(const Activation& a, View<const R> dy, View<const R> gate, View<const R> up,
                    Sink<R> dgate, Sink<R> dup) {
  if constexpr (kPlain<R>)
    plain::gated_backward(a, dy, gate, up, dgate, dup);
  else
    HWY_DYNAMIC_DISPATCH(ActBackward)(a, dy, gate, up, dgate, dup);
}

#define PLUMB_INSTANTIATE(R)                                                                            \
  template void activation_forward(const Activation&, View<const R>, View<R>);                          \
  template void activation_backward(const Activation&, View<const R>, View<const R>, Sink<R>);          \
  template void gated_forward(const Activation&, View<const R>, View<const R>, View<R>);                \
  template void gated_backward(const Activation&, View<const R>, View<const R>, View<const R>, Sink<R>, \
                               Sink<R>);
PLUMB_INSTANTIATE(float)
PLUMB_INSTANTIATE(double)
#undef PLUMB_INSTANTIATE

}  // namespace plumb
#endif  // HWY_ONCE
