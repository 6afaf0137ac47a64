#include "plumb/kernel/batch_norm.h"

#include <algorithm>
#include <cmath>

namespace plumb {
namespace {

// Columns whose sums are kept at one time: rows are read in order, a cache line or more of each.
constexpr std::int64_t group = 64;

// f(first, n) for groups of columns.
template <class F>
void each_group(std::int64_t cols, const F& f) {
  for (std::int64_t at = 0; at < cols; at += group) f(at, std::min(group, cols - at));
}

}  // namespace

CountedRows::CountedRows(std::span<const std::int32_t> of_rows, std::int64_t ignored)
    : targets(of_rows), ignore_index(ignored) {
  if (count(static_cast<std::int64_t>(of_rows.size())) < 2) targets = {};
}

std::int64_t CountedRows::count(std::int64_t rows) const {
  if (targets.empty()) return rows;
  return rows - std::ranges::count(targets, static_cast<std::int32_t>(ignore_index));
}

template <class R>
void batch_norm_statistics(View<const R> x, double eps, View<R> mean, View<R> rstd, View<R> unbiased,
                           const CountedRows& counted) {
  const auto m = static_cast<double>(counted.count(x.rows));
  each_group(x.cols, [&](std::int64_t at, std::int64_t n) {
    double sum[group] = {}, squares[group] = {};
    for (std::int64_t i = 0; i < x.rows; ++i) {
      if (!counted(i)) continue;
      for (std::int64_t j = 0; j < n; ++j) sum[j] += static_cast<double>(x.row(i)[at + j]);
    }
    for (std::int64_t j = 0; j < n; ++j) sum[j] /= m;
    for (std::int64_t i = 0; i < x.rows; ++i) {
      if (!counted(i)) continue;
      for (std::int64_t j = 0; j < n; ++j) {
        const double c = static_cast<double>(x.row(i)[at + j]) - sum[j];
        squares[j] += c * c;
      }
    }
    for (std::int64_t j = 0; j < n; ++j) {
      mean.data[at + j] = static_cast<R>(sum[j]);
      rstd.data[at + j] = static_cast<R>(1 / std::sqrt(squares[j] / m + eps));
      if (unbiased) unbiased.data[at + j] = static_cast<R>(squares[j] / (m - 1));
    }
  });
}

template <class R>
void batch_norm_forward(View<const R> x, View<const R> mean, View<const R> rstd, View<const R> gamma,
                        View<const R> beta, View<R> y) {
  for (std::int64_t i = 0; i < x.rows; ++i)
    for (std::int64_t j = 0; j < x.cols; ++j) {
      const R xhat = (x.row(i)[j] - mean.data[j]) * rstd.data[j];
      y.row(i)[j] = (gamma ? xhat * gamma.data[j] : xhat) + (beta ? beta.data[j] : R(0));
    }
}

template <class R>
void batch_norm_backward(View<const R> dy, View<const R> x, View<const R> mean, View<const R> rstd,
                         View<const R> gamma, bool of_batch, Sink<R> dx, Sink<R> dgamma, Sink<R> dbeta,
                         const CountedRows& counted) {
  const auto m = static_cast<double>(counted.count(x.rows));
  auto put = [](R& to, double d, bool overwrite) {
    to = static_cast<R>(overwrite ? d : static_cast<double>(to) + d);
  };
  each_group(x.cols, [&](std::int64_t at, std::int64_t n) {
    double sum[group] = {}, dot[group] = {};
    auto xhat = [&](std::int64_t i, std::int64_t j) {
      return (static_cast<double>(x.row(i)[j]) - static_cast<double>(mean.data[j])) *
             static_cast<double>(rstd.data[j]);
    };
    for (std::int64_t i = 0; i < x.rows; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        const auto g = static_cast<double>(dy.row(i)[at + j]);
        sum[j] += g;
        dot[j] += g * xhat(i, at + j);
      }
    for (std::int64_t j = 0; j < n; ++j) {
      if (dgamma) put(dgamma.v.data[at + j], dot[j], dgamma.overwrite);
      if (dbeta) put(dbeta.v.data[at + j], sum[j], dbeta.overwrite);
    }
    if (!dx) return;
    for (std::int64_t i = 0; i < x.rows; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        const std::int64_t c = at + j;
        const double scale =
            static_cast<double>(rstd.data[c]) * (gamma ? static_cast<double>(gamma.data[c]) : 1.0);
        const double through = of_batch && counted(i) ? (sum[j] + xhat(i, c) * dot[j]) / m : 0.0;
        put(dx.v.row(i)[c], scale * (static_cast<double>(dy.row(i)[c]) - through), dx.overwrite);
      }
  });
}

template <class R>
void batch_norm_merge(double momentum, View<const R> mean, View<const R> unbiased, View<R> running_mean,
                      View<R> running_var, View<R> count) {
  const double k = static_cast<double>(*count.data) + 1;
  const double rho = momentum > 0 ? momentum : 1 / k;
  *count.data = static_cast<R>(k);
  auto merge = [rho](R& to, R with) {
    to = static_cast<R>((1 - rho) * static_cast<double>(to) + rho * static_cast<double>(with));
  };
  for (std::int64_t j = 0; j < mean.cols; ++j) {
    merge(running_mean.data[j], mean.data[j]);
    merge(running_var.data[j], unbiased.data[j]);
  }
}

#define PLUMB_INSTANTIATE(R)                                                                                 \
  template void batch_norm_statistics(View<const R>, double, View<R>, View<R>, View<R>, const CountedRows&); \
  template void batch_norm_forward(View<const R>, View<const R>, View<const R>, View<const R>,               \
                                   View<const R>, View<R>);                                                  \
  template void batch_norm_backward(View<const R>, View<const R>, View<const R>, View<const R>,              \
                                    View<const R>, bool, Sink<R>, Sink<R>, Sink<R>, const CountedRows&);     \
  template void batch_norm_merge(double, View<const R>, View<const R>, View<R>, View<R>, View<R>);
PLUMB_INSTANTIATE(float)
PLUMB_INSTANTIATE(double)
#undef PLUMB_INSTANTIATE

}  // namespace plumb
