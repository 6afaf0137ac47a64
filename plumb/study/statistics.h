// What is said of differences that come in pairs, and of orders that should agree.
#pragma once
#include <span>
#include <vector>

namespace plumb {

/// A paired difference of losses, in nats, with Student's 95 % interval. Of one group there is no interval:
/// NaN.
struct PairedDifference {
  double mean = 0, low = 0, high = 0;
};

/// a - b, item by item: the mean difference; of one pair without an interval. A loss of HUGE_VAL is a run's that broke: it
/// makes the whole difference infinite; of two that broke neither is worse.
PairedDifference paired(std::span<const double> a, std::span<const double> b);

/// The same of sums over groups of unequal `sizes` (losses of sequences, and how many targets each has): the
/// difference a target, whose interval is that of a ratio of means (Cochran 1977, Sampling Techniques,
/// chapter 6). Groups of size 0 do not count.
PairedDifference paired_ratio(std::span<const double> sum_a, std::span<const double> sum_b,
                              std::span<const double> sizes);

/// 1 for the smallest; equal values share the mean of their ranks.
std::vector<double> ranks(std::span<const double>);

/// Spearman's correlation of ranks with its two-sided p, by permutation: of all orders up to 8 pairs, of
/// 9,999 drawn ones beyond, counted with the one that was seen. Pairs with a NaN are left out. NaN of fewer
/// than 3 pairs, or where all values of a side are equal.
struct RankCorrelation {
  double rho = 0, p = 0;
  std::size_t n = 0;
};
RankCorrelation spearman(std::span<const double> a, std::span<const double> b);

}  // namespace plumb
