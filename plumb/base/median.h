// The middle of a few measurements, and how well it is known.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace plumb {

/// The middle value of an ascending list, or the mean of the two; not for an empty one.
inline double middle_of(const std::vector<double>& ascending) {
  const std::size_t n = ascending.size();
  return (ascending[(n - 1) / 2] + ascending[n / 2]) / 2;
}

/// The median, and the k-th smallest and k-th largest values, which hold the distribution's median between
/// them with a probability of at least 95 % whatever the distribution (the sign test's interval: the number
/// of values below the median is binomial with p = 1/2). Takes 6 values or more; fewer cannot give 95 %, and
/// then low and high are the extremes.
struct Median {
  double value, low, high;
  explicit Median(std::vector<double> v) {
    std::ranges::sort(v);
    const std::size_t n = v.size();
    value = middle_of(v);
    // The largest k with P(fewer than k of n fair coins are heads) <= 2.5 %.
    const auto probability = [&](std::size_t heads) {  // by logarithms: 0.5^n is 0 from n = 1075 on
      const auto N = static_cast<double>(n), h = static_cast<double>(heads);
      return std::exp(std::lgamma(N + 1) - std::lgamma(h + 1) - std::lgamma(N - h + 1) - N * std::log(2.0));
    };
    std::size_t k = 0;
    double below = probability(0);
    while (below <= 0.025) below += probability(++k);
    k = std::max<std::size_t>(k, 1);
    low = v[k - 1];
    high = v[n - k];
  }
};

}  // namespace plumb
