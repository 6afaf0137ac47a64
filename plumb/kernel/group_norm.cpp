// Rows are read along memory: sums of channels first, then of the groups that they make.
#include "plumb/kernel/group_norm.h"

#include <algorithm>
#include <cmath>

namespace plumb {
namespace {

template <class R>
double gain(View<const R> gamma, std::int64_t j) {
  return gamma ? static_cast<double>(gamma.data[j]) : 1.0;
}

}  // namespace

template <class R>
void group_norm_forward(View<const R> x, std::int64_t sequences, std::int64_t groups, double eps,
                        View<const R> gamma, View<const R> beta, View<R> y, View<R> mean, View<R> rstd,
                        double* work) {
  const std::int64_t t = x.rows / sequences, c = x.cols, width = c / groups;
  const auto n = static_cast<double>(t * width);
  double *sum = work, *centre = work + c;
  for (std::int64_t s = 0; s < sequences; ++s) {
    std::fill_n(sum, c, 0.0);
    for (std::int64_t i = s * t; i < (s + 1) * t; ++i)
      for (std::int64_t j = 0; j < c; ++j) sum[j] += static_cast<double>(x.row(i)[j]);
    for (std::int64_t g = 0; g < groups; ++g) {
      double m = 0;
      for (std::int64_t j = g * width; j < (g + 1) * width; ++j) m += sum[j];
      std::fill_n(centre + g * width, width, m / n);
      mean.row(s)[g] = static_cast<R>(m / n);
    }
    std::fill_n(sum, c, 0.0);
    for (std::int64_t i = s * t; i < (s + 1) * t; ++i)
      for (std::int64_t j = 0; j < c; ++j) {
        const double d = static_cast<double>(x.row(i)[j]) - centre[j];
        sum[j] += d * d;
      }
    for (std::int64_t g = 0; g < groups; ++g) {
      double v = 0;
      for (std::int64_t j = g * width; j < (g + 1) * width; ++j) v += sum[j];
      const double r = 1 / std::sqrt(v / n + eps);
      std::fill_n(sum + g * width, width, r);
      rstd.row(s)[g] = static_cast<R>(r);
    }
    for (std::int64_t j = 0; j < c; ++j) sum[j] *= gain(gamma, j);
    for (std::int64_t i = s * t; i < (s + 1) * t; ++i)
      for (std::int64_t j = 0; j < c; ++j)
        y.row(i)[j] = static_cast<R>((static_cast<double>(x.row(i)[j]) - centre[j]) * sum[j] +
                                     (beta ? static_cast<double>(beta.data[j]) : 0.0));
  }
}

template <class R>
void group_norm_backward(View<const R> dy, View<const R> x, std::int64_t sequences, std::int64_t groups,
                         View<const R> gamma, View<const R> mean, View<const R> rstd, Sink<R> dx,
                         Sink<R> dgamma, Sink<R> dbeta, double* work) {
  const std::int64_t t = x.rows / sequences, c = x.cols, width = c / groups;
  const auto n = static_cast<double>(t * width);
  double *sum = work, *dot = work + c;  // of dy, and of dy (x - mean), a channel each
  for (std::int64_t s = 0; s < sequences; ++s) {
    const auto m = [&](std::int64_t g) { return static_cast<double>(mean.row(s)[g]); };
    const auto r = [&](std::int64_t g) { return static_cast<double>(rstd.row(s)[g]); };
    std::fill_n(sum, 2 * c, 0.0);
    for (std::int64_t i = s * t; i < (s + 1) * t; ++i)
      for (std::int64_t g = 0; g < groups; ++g) {
        const double centre = m(g);
        for (std::int64_t j = g * width; j < (g + 1) * width; ++j) {
          const auto d = static_cast<double>(dy.row(i)[j]);
          sum[j] += d;
          dot[j] += d * (static_cast<double>(x.row(i)[j]) - centre);
        }
      }
    for (std::int64_t g = 0; g < groups; ++g) {
      double sum_g = 0, sum_gx = 0;
      for (std::int64_t j = g * width; j < (g + 1) * width; ++j) {
        const auto add = [&](Sink<R> to, double value) {
          if (to)
            to.v.data[j] =
                static_cast<R>(value + (to.overwrite && s == 0 ? 0 : static_cast<double>(to.v.data[j])));
        };
        add(dgamma, dot[j] * r(g));
        add(dbeta, sum[j]);
        sum_g += sum[j] * gain(gamma, j);
        sum_gx += dot[j] * r(g) * gain(gamma, j);
      }
      std::fill_n(sum + g * width, width, sum_g / n);
      std::fill_n(dot + g * width, width, sum_gx / n);
    }
    if (!dx) continue;
    for (std::int64_t i = s * t; i < (s + 1) * t; ++i)
      for (std::int64_t g = 0; g < groups; ++g) {
        const double centre = m(g), scale = r(g);
        for (std::int64_t j = g * width; j < (g + 1) * width; ++j) {
          const double xhat = (static_cast<double>(x.row(i)[j]) - centre) * scale;
          const double d =
              (static_cast<double>(dy.row(i)[j]) * gain(gamma, j) - sum[j] - xhat * dot[j]) * scale;
          R& to = dx.v.row(i)[j];
          to = static_cast<R>(d + (dx.overwrite ? 0 : static_cast<double>(to)));
        }
      }
  }
}

#define PLUMB_INSTANTIATE(R)                                                                                 \
  template void group_norm_forward(View<const R>, std::int64_t, std::int64_t, double, View<const R>,         \
                                   View<const R>, View<R>, View<R>, View<R>, double*);                       \
  template void group_norm_backward(View<const R>, View<const R>, std::int64_t, std::int64_t, View<const R>, \
                                    View<const R>, View<const R>, Sink<R>, Sink<R>, Sink<R>, double*);
PLUMB_INSTANTIATE(float)
PLUMB_INSTANTIATE(double)
#undef PLUMB_INSTANTIATE

}  // namespace plumb
