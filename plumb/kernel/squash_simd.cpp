#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "plumb/kernel/squash_simd.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include <cmath>

#include "hwy/contrib/math/math-inl.h"
#include "plumb/kernel/simd_math-inl.h"
#include "plumb/kernel/squash.h"

HWY_BEFORE_NAMESPACE();
namespace plumb {
namespace HWY_NAMESPACE {
namespace {

/// f(u) and f'(u).
struct Tanh {
  static HWY_INLINE void Both(FloatVec u, FloatVec& f, FloatVec& slope) {
    const Floats d;
    f = hn::IfThenElse(hn::IsNaN(u), u, hn::Tanh(d, u));
    slope = hn::NegMulAdd(f, f, hn::Set(d, 1.0f));
  }
};

/// Near 0 by its series u 2/sqrt(pi) Σ (-u²)^k / (k! (2k + 1)), whose next term is below 3e-8 of the sum at
/// 0.5; elsewhere 1 - 2 Phi(-sqrt(2) |u|), where nothing cancels.
struct Erf {
  static HWY_INLINE void Both(FloatVec u, FloatVec& f, FloatVec& slope) {
    const Floats d;
    const FloatVec square[1] = {hn::Mul(u, u)};
    FloatVec series[1] = {hn::Set(d, -7.57575758e-4f)};  // -1 / 1320
    Horner(d, series, square, 4.62962963e-3f, -2.38095238e-2f, 1e-1f, -3.33333333e-1f, 1.0f);
    const FloatVec scaled[1] = {hn::Mul(u, hn::Set(d, 1.41421356f))};
    FloatVec cdf[1], bell[1];
    NormalCdf(d, scaled, cdf, bell);
    const auto far = hn::MulAdd(cdf[0], hn::Set(d, 2.0f), hn::Set(d, -1.0f));
    const auto near = hn::Mul(hn::Mul(u, hn::Set(d, 1.12837917f)), series[0]);
    f = hn::IfThenElse(hn::Lt(hn::Abs(u), hn::Set(d, 0.5f)), near, far);
    slope = hn::Mul(bell[0], hn::Set(d, 1.12837917f));
  }
};

template <class F>
void Forward(View<const float> x, float alpha, float shift, View<const float> gamma, View<const float> beta,
             View<float> y) {
  const Floats d;
  const auto a = hn::Set(d, alpha), s = hn::Set(d, shift);
  for (std::int64_t i = 0; i < x.rows; ++i)
    ForRow(Size(x.cols), [&](std::size_t j, auto part) HWY_ATTR {
      FloatVec f, slope;
      F::Both(hn::MulAdd(a, part.load(x.row(i) + j), s), f, slope);
      if (gamma) f = hn::Mul(f, part.load(gamma.data + j));
      if (beta) f = hn::Add(f, part.load(beta.data + j));
      part.store(f, y.row(i) + j);
    });
}

template <class F>
SquashGrads Backward(View<const float> dy, View<const float> x, float alpha, float shift,
                     View<const float> gamma, Sink<float> dx, Sink<float> dgamma, Sink<float> dbeta) {
  const Floats d;
  const auto a = hn::Set(d, alpha), s = hn::Set(d, shift);
  SquashGrads total;
  for (std::int64_t i = 0; i < x.rows; ++i) {
    auto by_x = hn::Zero(d), plain = hn::Zero(d);
    ForRow(Size(x.cols), [&](std::size_t j, auto part) HWY_ATTR {
      const auto at = part.load(x.row(i) + j), from = part.load(dy.row(i) + j);
      FloatVec f, slope;
      F::Both(hn::MulAdd(a, at, s), f, slope);
      auto g = hn::Mul(from, slope);
      if (gamma) g = hn::Mul(g, part.load(gamma.data + j));
      g = part.keep(g);
      if (dx) Put(part, dx.overwrite, hn::Mul(a, g), dx.v.row(i) + j);
      if (dgamma) Put(part, dgamma.overwrite && i == 0, hn::Mul(from, f), dgamma.v.data + j);
      if (dbeta) Put(part, dbeta.overwrite && i == 0, from, dbeta.v.data + j);
      by_x = hn::MulAdd(g, at, by_x);
      plain = hn::Add(plain, g);
    });
    total.alpha += double(SumLanes(d, by_x));
    total.shift += double(SumLanes(d, plain));
  }
  return total;
}

void SquashForward(bool erf, View<const float> x, float alpha, float shift, View<const float> gamma,
                   View<const float> beta, View<float> y) {
  (erf ? Forward<Erf> : Forward<Tanh>)(x, alpha, shift, gamma, beta, y);
}

SquashGrads SquashBackward(bool erf, View<const float> dy, View<const float> x, float alpha, float shift,
                           View<const float> gamma, Sink<float> dx, Sink<float> dgamma, Sink<float> dbeta) {
  return (erf ? Backward<Erf> : Backward<Tanh>)(dy, x, alpha, shift, gamma, dx, dgamma, dbeta);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace plumb
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plumb {
namespace {
HWY_EXPORT(SquashForward);
HWY_EXPORT(SquashBackward);

double f_of(bool erf, double u) { return erf ? std::erf(u) : std::tanh(u); }
double slope_of(bool erf, double u, double f) {
  return erf ? 1.1283791670955126 * std::exp(-u * u) : 1 - f * f;
}
double gain(View<const double> gamma, std::int64_t j) { return gamma ? gamma.data[j] : 1; }
void put(Sink<double> s, bool overwrite, std::int64_t i, std::int64_t j, double value) {
  if (!s) return;
  double& to = s.v.row(i)[j];
  to = value + (overwrite ? 0 : to);
}
}  // namespace

template <>
void squash_forward(bool erf, View<const double> x, double alpha, double shift, View<const double> gamma,
                    View<const double> beta, View<double> y) {
  for (std::int64_t i = 0; i < x.rows; ++i)
    for (std::int64_t j = 0; j < x.cols; ++j)
      y.row(i)[j] = f_of(erf, alpha * x.row(i)[j] + shift) * gain(gamma, j) + (beta ? beta.data[j] : 0);
}

template <>
SquashGrads squash_backward(bool erf, View<const double> dy, View<const double> x, double alpha, double shift,
                            View<const double> gamma, Sink<double> dx, Sink<double> dgamma,
                            Sink<double> dbeta) {
  SquashGrads total;
  for (std::int64_t i = 0; i < x.rows; ++i)
    for (std::int64_t j = 0; j < x.cols; ++j) {
      const double u = alpha * x.row(i)[j] + shift, f = f_of(erf, u), from = dy.row(i)[j];
      const double g = from * gain(gamma, j) * slope_of(erf, u, f);
      put(dx, dx.overwrite, i, j, alpha * g);
      put(dgamma, dgamma.overwrite && i == 0, 0, j, from * f);
      put(dbeta, dbeta.overwrite && i == 0, 0, j, from);
      total.alpha += g * x.row(i)[j];
      total.shift += g;
    }
  return total;
}

template <>
void squash_forward(bool erf, View<const float> x, double alpha, double shift, View<const float> gamma,
                    View<const float> beta, View<float> y) {
  HWY_DYNAMIC_DISPATCH(SquashForward)(erf, x, float(alpha), float(shift), gamma, beta, y);
}

template <>
SquashGrads squash_backward(bool erf, View<const float> dy, View<const float> x, double alpha, double shift,
                            View<const float> gamma, Sink<float> dx, Sink<float> dgamma, Sink<float> dbeta) {
  return HWY_DYNAMIC_DISPATCH(SquashBackward)(erf, dy, x, float(alpha), float(shift), gamma, dx, dgamma,
                                              dbeta);
}

}  // namespace plumb
#endif  // HWY_ONCE
