#include "plumb/kernel/group_norm.h"

#include <cmath>

namespace plumb {
namespace {

template <class R>
double gain(View<const R> gamma, std::int64_t j) {
  return gamma ? static_cast<double>(gamma.data[j]) : 1.0;
}

/// Calls f(sequence, group, the group's columns of the sequence's rows).
template <class R, class F>
void each_group(View<const R> x, std::int64_t sequences, std::int64_t groups, F f) {
  const std::int64_t t = x.rows / sequences, width = x.cols / groups;
  for (std::int64_t s = 0; s < sequences; ++s)
    for (std::int64_t g = 0; g < groups; ++g) f(s, g, x.slice(s * t, t).columns(g * width, width));
}

}  // namespace

template <class R>
void group_norm_forward(View<const R> x, std::int64_t sequences, std::int64_t groups, double eps,
                        View<const R> gamma, View<const R> beta, View<R> y, View<R> mean, View<R> rstd) {
  const std::int64_t t = x.rows / sequences, width = x.cols / groups;
  each_group(x, sequences, groups, [&](std::int64_t s, std::int64_t g, View<const R> part) {
    const auto n = static_cast<double>(part.size());
    double m = 0, v = 0;
    for (std::int64_t i = 0; i < t; ++i)
      for (std::int64_t j = 0; j < width; ++j) m += static_cast<double>(part.row(i)[j]);
    m /= n;
    for (std::int64_t i = 0; i < t; ++i)
      for (std::int64_t j = 0; j < width; ++j) {
        const double d = static_cast<double>(part.row(i)[j]) - m;
        v += d * d;
      }
    const double r = 1 / std::sqrt(v / n + eps);
    mean.row(s)[g] = static_cast<R>(m);
    rstd.row(s)[g] = static_cast<R>(r);
    for (std::int64_t i = 0; i < t; ++i)
      for (std::int64_t j = 0; j < width; ++j) {
        const std::int64_t c = g * width + j;
        const double xhat = (static_cast<double>(part.row(i)[j]) - m) * r;
        y.row(s * t + i)[c] =
            static_cast<R>(xhat * gain(gamma, c) + (beta ? static_cast<double>(beta.data[c]) : 0.0));
      }
  });
}

template <class R>
void group_norm_backward(View<const R> dy, View<const R> x, std::int64_t sequences, std::int64_t groups,
                         View<const R> gamma, View<const R> mean, View<const R> rstd, Sink<R> dx,
                         Sink<R> dgamma, Sink<R> dbeta) {
  const std::int64_t t = x.rows / sequences, width = x.cols / groups;
  each_group(x, sequences, groups, [&](std::int64_t s, std::int64_t g, View<const R> part) {
    const auto n = static_cast<double>(part.size());
    const double m = static_cast<double>(mean.row(s)[g]), r = static_cast<double>(rstd.row(s)[g]);
    double sum_g = 0, sum_gx = 0;
    for (std::int64_t j = 0; j < width; ++j) {
      const std::int64_t c = g * width + j;
      double sum = 0, dot = 0;  // of this channel
      for (std::int64_t i = 0; i < t; ++i) {
        const double d = static_cast<double>(dy.row(s * t + i)[c]);
        sum += d;
        dot += d * (static_cast<double>(part.row(i)[j]) - m) * r;
      }
      sum_g += sum * gain(gamma, c);
      sum_gx += dot * gain(gamma, c);
      const auto add = [&](Sink<R> to, double value) {
        if (to)
          to.v.data[c] =
              static_cast<R>(value + (to.overwrite && s == 0 ? 0 : static_cast<double>(to.v.data[c])));
      };
      add(dgamma, dot);
      add(dbeta, sum);
    }
    if (!dx) return;
    for (std::int64_t i = 0; i < t; ++i)
      for (std::int64_t j = 0; j < width; ++j) {
        const std::int64_t c = g * width + j;
        const double xhat = (static_cast<double>(part.row(i)[j]) - m) * r;
        const double d =
            (static_cast<double>(dy.row(s * t + i)[c]) * gain(gamma, c) - sum_g / n - xhat * sum_gx / n) * r;
        R& to = dx.v.row(s * t + i)[c];
        to = static_cast<R>(d + (dx.overwrite ? 0 : static_cast<double>(to)));
      }
  });
}

#define PLUMB_INSTANTIATE(R)                                                                                 \
  template void group_norm_forward(View<const R>, std::int64_t, std::int64_t, double, View<const R>,         \
                                   View<const R>, View<R>, View<R>, View<R>);                                \
  template void group_norm_backward(View<const R>, View<const R>, std::int64_t, std::int64_t, View<const R>, \
                                    View<const R>, View<const R>, Sink<R>, Sink<R>, Sink<R>);
PLUMB_INSTANTIATE(float)
PLUMB_INSTANTIATE(double)
#undef PLUMB_INSTANTIATE

}  // namespace plumb
