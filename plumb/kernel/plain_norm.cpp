// Plain twins of the norms: loops to check against the formula. Sums in double, whatever R is.
//
//   LayerNorm  xhat = (x - mean) rstd, rstd = 1/sqrt(var + eps), var biased, two-pass;  y = xhat gamma + beta
//              dx = (g - mean g - xhat mean(g xhat)) rstd,  g = dy gamma        Ba et al. 2016, arXiv
//              1607.06450
//   RMSNorm    r = 1/sqrt(mean x^2 + eps);  y = x r gamma
//              dx = r g - r^3 x mean(g x)                                Zhang & Sennrich 2019, arXiv
//              1910.07467
//
// x, y, dx: (rows, n). gamma, beta: (1, n) or empty. mean, rstd: (rows, 1). dx overwrites or adds as its sink
// says; dgamma and dbeta sum over rows in order, on top of what is there unless their sink overwrites.
#include <cmath>

#include "plumb/kernel/rows.h"

namespace plumb::plain {
namespace {

template <class R>
double gain_at(View<const R> gamma, std::int64_t j) {
  return gamma ? double(gamma.data[j]) : 1.0;
}

template <class R>
void put(Sink<R> s, std::int64_t i, std::int64_t j, double value) {
  R& out = s.v.row(i)[j];
  out = R(s.overwrite ? value : double(out) + value);
}

/// Adds row i's part of a parameter gradient; row 0 of an overwriting sink starts it.
template <class R>
void put_parameter(Sink<R> s, std::int64_t i, std::int64_t j, double value) {
  if (s) put(Sink<R>{s.v, s.overwrite && i == 0}, 0, j, value);
}

}  // namespace

template <class R>
void layer_norm_forward(View<const R> x, View<const R> gamma, View<const R> beta, double eps, View<R> y,
                        View<R> mean, View<R> rstd) {
  const double n = double(x.cols);
  for (std::int64_t i = 0; i < x.rows; ++i) {
    const R* xi = x.row(i);
    double m = 0, var = 0;
    for (std::int64_t j = 0; j < x.cols; ++j) m += double(xi[j]);
    m /= n;
    for (std::int64_t j = 0; j < x.cols; ++j) var += (double(xi[j]) - m) * (double(xi[j]) - m);
    const double s = 1 / std::sqrt(var / n + eps);
    for (std::int64_t j = 0; j < x.cols; ++j)
      y.row(i)[j] = R((double(xi[j]) - m) * s * gain_at(gamma, j) + (beta ? double(beta.data[j]) : 0.0));
    *mean.row(i) = R(m);
    *rstd.row(i) = R(s);
  }
}

template <class R>
void layer_norm_backward(View<const R> dy, View<const R> x, View<const R> gamma, View<const R> mean,
                         View<const R> rstd, Sink<R> dx, Sink<R> dgamma, Sink<R> dbeta) {
  const double n = double(x.cols);
  for (std::int64_t i = 0; i < x.rows; ++i) {
    const double m = double(*mean.row(i)), s = double(*rstd.row(i));
    double sum_g = 0, sum_gx = 0;
    for (std::int64_t j = 0; j < x.cols; ++j) {
      const double g = double(dy.row(i)[j]) * gain_at(gamma, j);
      sum_g += g;
      sum_gx += g * (double(x.row(i)[j]) - m) * s;
    }
    for (std::int64_t j = 0; j < x.cols; ++j) {
      const double d = double(dy.row(i)[j]), xhat = (double(x.row(i)[j]) - m) * s;
      put_parameter(dgamma, i, j, d * xhat);
      put_parameter(dbeta, i, j, d);
      if (dx) put(dx, i, j, (d * gain_at(gamma, j) - sum_g / n - xhat * (sum_gx / n)) * s);
    }
  }
}

template <class R>
void rms_norm_forward(View<const R> x, View<const R> gamma, double eps, View<R> y, View<R> rstd) {
  for (std::int64_t i = 0; i < x.rows; ++i) {
    const R* xi = x.row(i);
    double ss = 0;
    for (std::int64_t j = 0; j < x.cols; ++j) ss += double(xi[j]) * double(xi[j]);
    const double r = 1 / std::sqrt(ss / double(x.cols) + eps);
    for (std::int64_t j = 0; j < x.cols; ++j) y.row(i)[j] = R(double(xi[j]) * r * gain_at(gamma, j));
    *rstd.row(i) = R(r);
  }
}

template <class R>
void rms_norm_backward(View<const R> dy, View<const R> x, View<const R> gamma, View<const R> rstd, Sink<R> dx,
                       Sink<R> dgamma) {
  for (std::int64_t i = 0; i < x.rows; ++i) {
    const double r = double(*rstd.row(i));
    double sum_gx = 0;
    for (std::int64_t j = 0; j < x.cols; ++j)
      sum_gx += double(dy.row(i)[j]) * gain_at(gamma, j) * double(x.row(i)[j]);
    const double c = sum_gx / double(x.cols);
    for (std::int64_t j = 0; j < x.cols; ++j) {
      const double d = double(dy.row(i)[j]), v = double(x.row(i)[j]);
      put_parameter(dgamma, i, j, d * v * r);
      if (dx) put(dx, i, j, r * d * gain_at(gamma, j) - r * r * r * v * c);
    }
  }
}

#define PLUMB_INSTANTIATE(R)                                                                              \
  template void layer_norm_forward(View<const R>, View<const R>, View<const R>, double, View<R>, View<R>, \
                                   View<R>);                                                              \
  template void layer_norm_backward(View<const R>, View<const R>, View<const R>, View<const R>,           \
                                    View<const R>, Sink<R>, Sink<R>, Sink<R>);                            \
  template void rms_norm_forward(View<const R>, View<const R>, double, View<R>, View<R>);                 \
  template void rms_norm_backward(View<const R>, View<const R>, View<const R>, View<const R>, Sink<R>,    \
                                  Sink<R>);
PLUMB_INSTANTIATE(float)
PLUMB_INSTANTIATE(double)
#undef PLUMB_INSTANTIATE

}  // namespace plumb::plain
