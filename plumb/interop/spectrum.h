// The eigenvalue spectrum of WᵀW and the exponent of its tail.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace plumb {

/// The eigenvalues of WᵀW (the squared singular values of W) that can be other than zero, ascending:
/// min(rows, cols) of them. `w` has rows × cols elements, row by row. Takes 8 rows·cols + 16 min² bytes (a
/// copy of w; WᵀW and the solver's copy of it) and about 2·rows·cols·min + 4/3·min³ operations.
std::vector<double> gram_eigenvalues(std::span<const float> w, std::int64_t rows, std::int64_t cols);

struct TailFit {
  double alpha = 0;  // of p(x) ∝ x^-alpha for x ≥ x_min
  double x_min = 0;  // the eigenvalue at which the tail begins
  double ks = 0;     // Kolmogorov-Smirnov distance of the tail from the fit
  std::int64_t n_tail = 0;
};

struct TailSearch {
  std::optional<TailFit> fit;
  std::string_view why_not;  // a clause, when there is no fit
};

/// The power law that fits the upper tail: alpha = 1 + n / Σ ln(x_i / x_min) over the n eigenvalues ≥ x_min
/// (the maximum likelihood, Hill's estimator), with the x_min whose fit has the smallest Kolmogorov-Smirnov
/// distance: Clauset, Shalizi & Newman 2009 (SIAM Review 51, eqs. 3.1 and 3.9), as Martin & Mahoney 2021
/// (JMLR 22:165) use it on weights. x_min is looked for among the eigenvalues that leave ten in the tail.
/// Nothing when all eigenvalues are equal, or when there are fewer than 50 positive ones, below which Clauset
/// et al. do not trust the fit.
TailSearch fit_tail(std::span<const double> ascending);

}  // namespace plumb
