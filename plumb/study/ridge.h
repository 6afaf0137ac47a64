// Linear least squares with an intercept and a ridge, in closed form.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace plumb {

/// y ≈ W x + b.
struct LinearFit {
  std::int64_t n_feature = 0;
  std::vector<double> weights;    // (targets, features)
  std::vector<double> intercept;  // of each target
  double predict(std::span<const double> x, std::size_t target) const;
};

/// The sums of a least-squares problem; rows are added one by one and not kept. Takes 4 features² bytes,
/// and features² operations a row.
class LeastSquares {
 public:
  LeastSquares(std::int64_t n_feature, std::int64_t n_target);
  void add(std::span<const double> x, std::span<const double> y);
  void add(const LeastSquares& other);
  std::int64_t count() const { return n_; }

  /// Minimises the mean squared error plus ridge |w|², where w are the weights of features of mean 0 and
  /// variance 1 (so that their units do not matter; one that does not vary has weight 0) and the intercept
  /// is free. By Cholesky; `ridge` > 0.
  LinearFit fit(double ridge) const;
  /// Mean squared error of a fit on the rows that were added here.
  double error(const LinearFit& fit, std::size_t target) const;

 private:
  void flush() const;
  std::size_t d_, m_;
  std::int64_t n_ = 0;
  std::vector<double> sum_x_, sum_y_, xy_, yy_;  // xy: (targets, features)
  // Rows wait until there are enough to go through the large matrix once for all of them.
  mutable std::vector<double> xx_, waiting_;  // lower triangle, row by row
};

}  // namespace plumb
