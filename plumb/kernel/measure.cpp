#include "plumb/kernel/measure.h"

#include <algorithm>
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

void Summary::merge(const Summary& o) {
  if (o.count == 0) return;
  const auto a = static_cast<double>(count), b = static_cast<double>(o.count), n = a + b;
  const double d = o.mean - mean, ab = a * b, d2 = d * d;
  m4 += o.m4 + d2 * d2 * ab * (a * a - ab + b * b) / (n * n * n) +
        6 * d2 * (a * a * o.m2 + b * b * m2) / (n * n) + 4 * d * (a * o.m3 - b * m3) / n;
  m3 += o.m3 + d2 * d * ab * (a - b) / (n * n) + 3 * d * (a * o.m2 - b * m2) / n;
  m2 += o.m2 + d2 * ab / n;
  mean += d * b / n;
  squares += o.squares;
  if (o.largest > largest || std::isnan(o.largest)) largest = o.largest;
  count += o.count;
}

double Summary::rms() const { return count > 0 ? std::sqrt(squares / static_cast<double>(count)) : nan; }
double Summary::kurtosis() const { return count > 0 ? static_cast<double>(count) * m4 / (m2 * m2) : nan; }

template <class R>
Summary summary(View<const R> x) {
  Summary all;
  for (std::int64_t i = 0; i < x.rows && x.cols > 0; ++i) {  // a row is in the cache when it is read again
    const R* row = x.row(i);
    Summary s;
    s.count = x.cols;
    const auto value = [&](std::int64_t j) { return static_cast<double>(row[j]); };
    s.mean = lane_sum(x.cols, value) / static_cast<double>(x.cols);
    s.squares = row_dot(row, row, x.cols);
    double two[8] = {}, three[8] = {}, four[8] = {};
    R top[8] = {};
    const auto add = [&](std::int64_t j, int l) {
      const double d = value(j) - s.mean, d2 = d * d;
      two[l] += d2, three[l] += d2 * d, four[l] += d2 * d2;
      const R size = row[j] < 0 ? -row[j] : row[j];
      top[l] = size > top[l] ? size : top[l];
    };
    std::int64_t j = 0;
    for (; j + 8 <= x.cols; j += 8)
      for (int l = 0; l < 8; ++l) add(j + l, l);
    for (int l = 0; j < x.cols; ++j, ++l) add(j, l);
    const auto joined = [](const double(&lane)[8]) {
      return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
    };
    s.m2 = joined(two), s.m3 = joined(three), s.m4 = joined(four);
    for (const R t : top) s.largest = std::max(s.largest, static_cast<double>(t));
    if (std::isnan(s.squares)) s.largest = nan;  // comparisons hide NaN
    all.merge(s);
  }
  return all;
}

template <class R>
double squared_distance(View<const R> a, View<const R> b) {
  if (a.rows != b.rows || a.cols != b.cols)
    fail("[squared_distance] ({}, {}) and ({}, {}) are not of one shape", a.rows, a.cols, b.rows, b.cols);
  double sum = 0;
  for (std::int64_t i = 0; i < a.rows; ++i)
    sum += lane_sum(a.cols, [x = a.row(i), y = b.row(i)](std::int64_t j) {
      const double d = static_cast<double>(x[j]) - static_cast<double>(y[j]);
      return d * d;
    });
  return sum;
}

// With a = a row's logits less their largest: H = ln Σ e^a - Σ a e^a / Σ e^a. Floats go through
// measure_simd.cpp.
template <class R>
Predictions plain::predictions(View<const R> logits) {
  Predictions all;
  for (std::int64_t i = 0; i < logits.rows; ++i) {
    const R* z = logits.row(i);
    const double top = row_max(z, logits.cols);
    double sum = 0, weighted = 0;
    for (std::int64_t j = 0; j < logits.cols; ++j) {
      const double a = static_cast<double>(z[j]) - top, e = std::exp(a);
      sum += e;
      if (e != 0) weighted += e * a;
    }
    const double entropy = std::log(sum) - weighted / sum;
    all.entropy.add(entropy < 0 ? 0 : entropy);  // rounding can leave -1e-16
    all.log_z.add(top + std::log(sum));
  }
  return all;
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

void KeyPairs::merge(const KeyPairs& o) {
  if (o.largest > largest || std::isnan(o.largest)) largest = o.largest;
  count += o.count, above += o.above;
}

template <class R>
KeyPairs key_pairs(View<const R> keys, double near, std::span<double> scratch) {
  need(scratch, keys.rows, "key_pairs");
  for (std::int64_t i = 0; i < keys.rows; ++i)
    scratch[static_cast<std::size_t>(i)] = std::sqrt(row_dot(keys.row(i), keys.row(i), keys.cols));
  KeyPairs pairs;
  pairs.count = keys.rows * (keys.rows - 1) / 2;
  for (std::int64_t i = 0; i < keys.rows; ++i)
    for (std::int64_t j = 0; j < i; ++j) {
      const double norms = scratch[static_cast<std::size_t>(i)] * scratch[static_cast<std::size_t>(j)];
      const double cosine = norms == 0 ? 0 : row_dot(keys.row(i), keys.row(j), keys.cols) / norms;
      if (cosine > pairs.largest || std::isnan(cosine)) pairs.largest = cosine;
      pairs.above += cosine > near;
    }
  return pairs;
}

template <class R>
double key_cosine_max(View<const R> keys, std::span<double> scratch) {
  return keys.rows < 2 ? nan : key_pairs(keys, 1, scratch).largest;
}

#define PLUMB_INSTANTIATE(R)                                                   \
  template Moments moments(View<const R>);                                     \
  template Summary summary(View<const R>);                                     \
  template double squared_distance(View<const R>, View<const R>);              \
  template Predictions plain::predictions(View<const R>);                      \
  template Mean plain::adjacent_kl(View<const R>);                             \
  template Mean normalised_entropy(View<const R>, std::int64_t, std::int64_t); \
  template double key_cosine_mean(View<const R>, std::span<double>);           \
  template KeyPairs key_pairs(View<const R>, double, std::span<double>);       \
  template double key_cosine_max(View<const R>, std::span<double>);
PLUMB_INSTANTIATE(float)
PLUMB_INSTANTIATE(double)
#undef PLUMB_INSTANTIATE

}  // namespace plumb
