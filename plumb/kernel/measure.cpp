#include "plumb/kernel/measure.h"

#include <cmath>
#include <limits>

#include "plumb/base/error.h"

namespace plumb {

namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// Σ f(j) over j < n in eight interleaved sums that are joined by pairs: fast, and the same on every machine.
template <class F>
double lane_sum(std::int64_t n, F&& f) {
  double lane[8] = {};
  std::int64_t j = 0;
  for (; j + 8 <= n; j += 8)
    for (int l = 0; l < 8; ++l) lane[l] += f(j + l);
  for (int l = 0; j < n; ++j, ++l) lane[l] += f(j);
  return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

template <class R>
double row_dot(const R* a, const R* b, std::int64_t n) {
  return lane_sum(n, [&](std::int64_t j) { return static_cast<double>(a[j]) * static_cast<double>(b[j]); });
}

/// Largest element; NaN does not hide (the sums that follow meet it).
template <class R>
double row_max(const R* x, std::int64_t n) {
  double m = -std::numeric_limits<double>::infinity();
  for (std::int64_t j = 0; j < n; ++j) m = static_cast<double>(x[j]) > m ? static_cast<double>(x[j]) : m;
  return m;
}

void need(std::span<double> scratch, std::int64_t n, const char* what) {
  if (static_cast<std::int64_t>(scratch.size()) < n)
    fail("[{}] scratch has {} elements, {} are needed", what, scratch.size(), n);
}

}  // namespace

double Mean::value() const { return count > 0 ? sum / static_cast<double>(count) : nan; }

void Moments::merge(const Moments& o) {
  if (o.count == 0) return;
  const auto n = static_cast<double>(count), m = static_cast<double>(o.count);
  const double delta = o.mean - mean;
  mean += delta * (m / (n + m));
  squares += o.squares + delta * delta * (n * m / (n + m));
  count += o.count;
}

double Moments::variance() const { return count > 0 ? squares / static_cast<double>(count) : nan; }
double Moments::std() const { return std::sqrt(variance()); }

template <class R>
Moments moments(View<const R> x) {
  Moments m;
  m.count = x.size();
  if (m.count == 0) return m;
  for (std::int64_t i = 0; i < x.rows; ++i) {
    const R* row = x.row(i);
    m.mean += lane_sum(x.cols, [&](std::int64_t j) { return static_cast<double>(row[j]); });
  }
  m.mean /= static_cast<double>(m.count);
  for (std::int64_t i = 0; i < x.rows; ++i) {
    const R* row = x.row(i);
    m.squares += lane_sum(x.cols, [&](std::int64_t j) {
      const double d = static_cast<double>(row[j]) - m.mean;
      return d * d;
    });
  }
  return m;
}

// With a = logits of t+1, b of t, each less its largest: KL = Σ e^a (a - b) / Σ e^a - ln Σ e^a + ln Σ e^b.
// One pass a row. Floats go through measure_simd.cpp.
template <class R>
Mean plain::adjacent_kl(View<const R> logits) {
  Mean mean;
  double before_max = 0, before_log = 0;  // of row t
  for (std::int64_t t = 0; t < logits.rows; ++t) {
    const R *a = logits.row(t), *b = logits.row(t > 0 ? t - 1 : 0);
    const double a_max = row_max(a, logits.cols);
    double sum = 0, weighted = 0;
    for (std::int64_t j = 0; j < logits.cols; ++j) {
      const double aj = static_cast<double>(a[j]) - a_max, e = std::exp(aj);
      sum += e;
      if (e != 0) weighted += e * (aj - (static_cast<double>(b[j]) - before_max));
    }
    const double a_log = std::log(sum), kl = weighted / sum - a_log + before_log;
    if (t > 0) mean.add(kl < 0 ? 0 : kl);  // rounding can leave -1e-16
    before_max = a_max, before_log = a_log;
  }
  return mean;
}

double normalised_entropy(double entropy, std::int64_t visible) {
  return entropy / std::log(static_cast<double>(visible));
}

template <class R>
Mean normalised_entropy(View<const R> entropy, std::int64_t block, std::int64_t window) {
  if (block <= 0 || entropy.rows % block != 0)
    fail("[normalised_entropy] {} rows are not whole sequences of {}", entropy.rows, block);
  Mean mean;
  for (std::int64_t i = 0; i < entropy.rows; ++i) {
    const std::int64_t all = i % block + 1, visible = window > 0 ? std::min(window, all) : all;
    if (visible < 2) continue;
    for (std::int64_t h = 0; h < entropy.cols; ++h)
      mean.add(normalised_entropy(static_cast<double>(entropy.row(i)[h]), visible));
  }
  return mean;
}

template <class R>
double key_cosine_mean(View<const R> keys, std::span<double> scratch) {
  if (keys.rows < 2) return nan;
  need(scratch, keys.cols, "key_cosine_mean");
  for (std::int64_t j = 0; j < keys.cols; ++j) scratch[static_cast<std::size_t>(j)] = 0;
  double own = 0;  // Σ ‖k̂‖²: 1 for each row but zeros
  for (std::int64_t i = 0; i < keys.rows; ++i) {
    const R* k = keys.row(i);
    const double norm = std::sqrt(row_dot(k, k, keys.cols));
    if (norm == 0) continue;
    own += 1;
    for (std::int64_t j = 0; j < keys.cols; ++j)
      scratch[static_cast<std::size_t>(j)] += static_cast<double>(k[j]) / norm;
  }
  const auto n = static_cast<double>(keys.rows);
  return (row_dot(scratch.data(), scratch.data(), keys.cols) - own) / (n * (n - 1));
}

template <class R>
double key_cosine_max(View<const R> keys, std::span<double> scratch) {
  if (keys.rows < 2) return nan;
  need(scratch, keys.rows, "key_cosine_max");
  for (std::int64_t i = 0; i < keys.rows; ++i)
    scratch[static_cast<std::size_t>(i)] = std::sqrt(row_dot(keys.row(i), keys.row(i), keys.cols));
  double largest = -1;
  for (std::int64_t i = 0; i < keys.rows; ++i)
    for (std::int64_t j = 0; j < i; ++j) {
      const double norms = scratch[static_cast<std::size_t>(i)] * scratch[static_cast<std::size_t>(j)];
      const double cosine = norms == 0 ? 0 : row_dot(keys.row(i), keys.row(j), keys.cols) / norms;
      if (std::isnan(cosine)) return nan;
      if (cosine > largest) largest = cosine;
    }
  return largest;
}

#define PLUMB_INSTANTIATE(R)                                                   \
  template Moments moments(View<const R>);                                     \
  template Mean plain::adjacent_kl(View<const R>);                             \
  template Mean normalised_entropy(View<const R>, std::int64_t, std::int64_t); \
  template double key_cosine_mean(View<const R>, std::span<double>);           \
  template double key_cosine_max(View<const R>, std::span<double>);
PLUMB_INSTANTIATE(float)
PLUMB_INSTANTIATE(double)
#undef PLUMB_INSTANTIATE

}  // namespace plumb
