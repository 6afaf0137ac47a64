// Plain twins of the activations, in double whatever R is. All shapes (rows, n); gradients as their sinks say.
//
//   gelu(x) = x Phi(x),      gelu'(x) = Phi(x) + x phi(x)
//   gelu_tanh(x) = x s(2u),  u = sqrt(2/pi) (x + 0.044715 x^3);  (1 + tanh u) / 2 = s(2u)
//   relu(x) = max(x, 0),     relu'(x) = [x > 0]
//   leaky_relu(x) = x, or slope x below 0
//   silu(x) = x s(x),        silu'(x) = s (1 + x (1 - s))
//   tanh(x),                 tanh'(x) = 1 - tanh(x)^2
//
// with s(x) = 1 / (1 + e^-x), all times `gain`. Hendrycks & Gimpel 2016, arXiv 1606.08415 (gelu, both forms);
// Maas et al. 2013 (leaky_relu); Elfwing et al. 2017, arXiv 1702.03118 (silu). At -inf gelu and silu are
// -inf * 0 = NaN, as their formulas say; a NaN in x or dy stays a NaN.
#include <cmath>
#include <numbers>
#include <utility>

#include "plumb/base/error.h"
#include "plumb/kernel/activation.h"

namespace plumb::plain {
namespace {

double normal_cdf(double x) { return 0.5 * std::erfc(-x * 0.70710678118654752440); }
double normal_pdf(double x) { return 0.39894228040143267794 * std::exp(-0.5 * x * x); }
double sigmoid(double x) {
  const double t = std::exp(-std::abs(x));
  return x < 0 ? t / (1 + t) : 1 / (1 + t);
}

/// act(x) and act'(x).
std::pair<double, double> value_and_slope(const Activation& a, double x) {
  switch (a.act) {
    case Act::gelu:
      return {x * normal_cdf(x), normal_cdf(x) + x * normal_pdf(x)};
    case Act::gelu_tanh: {
      const double k = 2 * std::sqrt(2 / std::numbers::pi), s = sigmoid(k * (x + 0.044715 * x * x * x));
      // far out the sigmoid is flat, and its slope would be inf * 0
      const double bend = std::abs(x) > 12 ? 0 * x : x * s * (1 - s) * k * (1 + 3 * 0.044715 * x * x);
      return {x * s, s + bend};
    }
    case Act::relu:
      return {x <= 0 ? 0 : x, x > 0 ? 1 : x <= 0 ? 0 : x};
    case Act::leaky_relu:
      return {x <= 0 ? a.slope * x : x, x > 0 ? 1 : x <= 0 ? a.slope : x};
    case Act::silu: {
      const double s = sigmoid(x);
      return {x * s, s * (1 + x * (1 - s))};
    }
    case Act::tanh: {
      const double y = std::tanh(x);
      return {y, 1 - y * y};
    }
  }
  fail("[activation] unknown kind {}", static_cast<int>(a.act));
}

template <class R>
void put(Sink<R> s, std::int64_t i, std::int64_t j, double v) {
  R& out = s.v.row(i)[j];
  out = R(s.overwrite ? v : double(out) + v);
}

template <class R, class F>
void each(View<const R> x, F f) {
  for (std::int64_t i = 0; i < x.rows; ++i)
    for (std::int64_t j = 0; j < x.cols; ++j) f(i, j, double(x.row(i)[j]));
}

}  // namespace

template <class R>
void activation_forward(const Activation& a, View<const R> x, View<R> y) {
  each(x, [&](std::int64_t i, std::int64_t j, double v) {
    y.row(i)[j] = R(a.gain * value_and_slope(a, v).first);
  });
}

template <class R>
void activation_backward(const Activation& a, View<const R> dy, View<const R> x, Sink<R> dx) {
  if (!dx) return;
  each(x, [&](std::int64_t i, std::int64_t j, double v) {
    put(dx, i, j, double(dy.row(i)[j]) * a.gain * value_and_slope(a, v).second);
  });
}

template <class R>
void gated_forward(const Activation& a, View<const R> gate, View<const R> up, View<R> y) {
  each(gate, [&](std::int64_t i, std::int64_t j, double v) {
    y.row(i)[j] = R(a.gain * value_and_slope(a, v).first * double(up.row(i)[j]));
  });
}

template <class R>
void gated_backward(const Activation& a, View<const R> dy, View<const R> gate, View<const R> up,
                    Sink<R> dgate, Sink<R> dup) {
  each(gate, [&](std::int64_t i, std::int64_t j, double v) {
    const auto [value, slope] = value_and_slope(a, v);
    const double d = a.gain * double(dy.row(i)[j]);
    if (dgate) put(dgate, i, j, d * slope * double(up.row(i)[j]));
    if (dup) put(dup, i, j, d * value);
  });
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

}  // namespace plumb::plain
