// Plain twins of the activations, in double whatever R is. All shapes (rows, n); dx as its sink says.
//
//   gelu(x) = x Phi(x),  gelu'(x) = Phi(x) + x phi(x)              Hendrycks & Gimpel 2016, arXiv 1606.08415
//   relu(x) = max(x, 0), relu'(x) = [x > 0]
//
// Both times `gain`. At -inf gelu is -inf * 0 = NaN, as the formula says; a NaN in x or dy stays a NaN.
#include <cmath>

#include "plumb/kernel/rows.h"

namespace plumb::plain {
namespace {

double normal_cdf(double x) { return 0.5 * std::erfc(-x * 0.70710678118654752440); }
double normal_pdf(double x) { return 0.39894228040143267794 * std::exp(-0.5 * x * x); }

template <class R, class F>
void backward(View<const R> dy, View<const R> x, Sink<R> dx, F slope) {
  if (!dx) return;
  for (std::int64_t i = 0; i < x.rows; ++i)
    for (std::int64_t j = 0; j < x.cols; ++j) {
      R& out = dx.v.row(i)[j];
      const double d = double(dy.row(i)[j]) * slope(double(x.row(i)[j]));
      out = R(dx.overwrite ? d : double(out) + d);
    }
}

}  // namespace

template <class R>
void gelu_forward(View<const R> x, double gain, View<R> y) {
  for (std::int64_t i = 0; i < x.rows; ++i)
    for (std::int64_t j = 0; j < x.cols; ++j) {
      const double v = double(x.row(i)[j]);
      y.row(i)[j] = R(v * normal_cdf(v) * gain);
    }
}

template <class R>
void gelu_backward(View<const R> dy, View<const R> x, double gain, Sink<R> dx) {
  backward(dy, x, dx, [gain](double v) { return gain * (normal_cdf(v) + v * normal_pdf(v)); });
}

template <class R>
void relu_forward(View<const R> x, double gain, View<R> y) {
  for (std::int64_t i = 0; i < x.rows; ++i)
    for (std::int64_t j = 0; j < x.cols; ++j) {
      const double v = double(x.row(i)[j]);
      y.row(i)[j] = R(gain * (v <= 0 ? 0 : v));
    }
}

template <class R>
void relu_backward(View<const R> dy, View<const R> x, double gain, Sink<R> dx) {
  backward(dy, x, dx, [gain](double v) { return v > 0 ? gain : v <= 0 ? 0 : v; });
}

#define PLUMB_INSTANTIATE(R)                                                  \
  template void gelu_forward(View<const R>, double, View<R>);                 \
  template void gelu_backward(View<const R>, View<const R>, double, Sink<R>); \
  template void relu_forward(View<const R>, double, View<R>);                 \
  template void relu_backward(View<const R>, View<const R>, double, Sink<R>);
PLUMB_INSTANTIATE(float)
PLUMB_INSTANTIATE(double)
#undef PLUMB_INSTANTIATE

}  // namespace plumb::plain
