#include "plumb/study/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "plumb/base/error.h"
#include "plumb/base/rng.h"
#include "plumb/base/student.h"

namespace plumb {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

double mean_of(std::span<const double> v) {
  return std::accumulate(v.begin(), v.end(), 0.0) / static_cast<double>(v.size());
}

// Around their means, so that the correlation is a sum of products over `norm`.
std::vector<double> centred(std::vector<double> v) {
  const double mean = mean_of(v);
  for (double& x : v) x -= mean;
  return v;
}

double dot(std::span<const double> a, std::span<const double> b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

// Share of the orders of b whose product with a is at least as far from 0 as `seen`.
double permutation_p(std::span<const double> a, std::vector<double> b, double seen) {
  const double least = std::abs(seen) * (1 - 1e-12);
  std::size_t extreme = 0, all = 0;
  const auto count = [&] { extreme += std::abs(dot(a, b)) >= least, ++all; };
  if (b.size() <= 8) {
    // Equal values make equal orders, each the same number of times: those that differ are enough.
    std::ranges::sort(b);
    do {
      count();
    } while (std::next_permutation(b.begin(), b.end()));
    return static_cast<double>(extreme) / static_cast<double>(all);
  }
  const Stream s = stream(0, "permutations");
  count();
  for (std::uint64_t draw = 1; draw <= 9999; ++draw) {
    for (std::size_t i = b.size() - 1; i > 0; --i) std::swap(b[i], b[s.below(i + 1, draw, 0, i)]);
    count();
  }
  return static_cast<double>(extreme) / static_cast<double>(all);
}

}  // namespace

PairedDifference paired(std::span<const double> a, std::span<const double> b) {
  if (a.size() != b.size() || a.empty())
    fail("{} and {} losses are no pairs; give as many of both, one or more", a.size(), b.size());
  // Infinity less itself is no number: of two that broke, neither is worse.
  std::vector<double> difference;
  for (std::size_t i = 0; i < a.size(); ++i) difference.push_back(a[i] == b[i] ? 0 : a[i] - b[i]);
  return paired_ratio(difference, std::vector<double>(a.size()), std::vector<double>(a.size(), 1));
}

PairedDifference paired_ratio(std::span<const double> sum_a, std::span<const double> sum_b,
                              std::span<const double> sizes) {
  double difference = 0, size = 0, n = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] > 0) difference += sum_a[i] - sum_b[i], size += sizes[i], ++n;
  const double mean = difference / size;
  if (!std::isfinite(mean)) return {mean, mean, mean};  // one of them broke
  double squares = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] > 0) squares += std::pow(sum_a[i] - sum_b[i] - mean * sizes[i], 2);
  const double half = (n < 2 ? nan : student_quantile(0.975, static_cast<int>(n) - 1)) *
                      std::sqrt(squares / (n - 1) / n) / (size / n);
  return {mean, mean - half, mean + half};
}

std::vector<double> ranks(std::span<const double> v) {
  std::vector<std::size_t> order(v.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [&](std::size_t i) { return v[i]; });
  std::vector<double> rank(v.size());
  for (std::size_t i = 0; i < order.size();) {
    std::size_t end = i + 1;
    while (end < order.size() && v[order[end]] == v[order[i]]) ++end;
    for (std::size_t k = i; k < end; ++k) rank[order[k]] = static_cast<double>(i + 1 + end) / 2;
    i = end;
  }
  return rank;
}

RankCorrelation spearman(std::span<const double> a, std::span<const double> b) {
  std::vector<double> x, y;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!std::isnan(a[i]) && !std::isnan(b[i])) x.push_back(a[i]), y.push_back(b[i]);
  if (x.size() < 3) return {nan, nan, x.size()};
  const std::vector<double> rx = centred(ranks(x)), ry = centred(ranks(y));
  const double norm = std::sqrt(dot(rx, rx) * dot(ry, ry)), product = dot(rx, ry);
  if (!(norm > 0)) return {nan, nan, x.size()};
  return {product / norm, permutation_p(rx, ry, product), x.size()};
}

}  // namespace plumb
