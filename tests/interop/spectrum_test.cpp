#include "plumb/interop/spectrum.h"

#include <gtest/gtest.h>

#include <cmath>

namespace plumb {
namespace {

// W = [3 0; 4 5] has WᵀW = [25 20; 20 25], whose eigenvalues are 5 and 45. A row of zeros changes nothing,
// whichever side is longer.
TEST(Spectrum, EigenvaluesOfWTransposedW) {
  for (const auto& [rows, cols, w] : {std::tuple{2, 2, std::vector<float>{3, 0, 4, 5}},
                                      {3, 2, {3, 0, 4, 5, 0, 0}},
                                      {2, 3, {3, 0, 0, 4, 5, 0}}}) {
    const std::vector<double> values = gram_eigenvalues(w, rows, cols);
    ASSERT_EQ(values.size(), 2U);
    EXPECT_NEAR(values[0], 5, 1e-12);
    EXPECT_NEAR(values[1], 45, 1e-12);
  }
}

std::vector<double> quantiles(double alpha, int n) {  // of p(x) ∝ x^-alpha, x ≥ 1
  std::vector<double> x;
  for (int i = 0; i < n; ++i) x.push_back(std::pow(1 - (i + 0.5) / n, 1 / (1 - alpha)));
  return x;
}

// The estimate's standard error is (alpha - 1) / √n (Clauset et al., eq. 3.2).
TEST(Spectrum, TheExponentOfAPowerLawIsFound) {
  for (const double alpha : {2.0, 3.5, 6.0}) {
    const auto fit = fit_tail(quantiles(alpha, 1000)).fit;
    ASSERT_TRUE(fit);
    EXPECT_NEAR(fit->alpha, alpha, 2 * (alpha - 1) / std::sqrt(static_cast<double>(fit->n_tail)));
  }
}

// Only the tail is a power law: what lies below x = 1 is spread evenly and must be left out.
TEST(Spectrum, TheTailIsFoundAboveABulk) {
  std::vector<double> x;
  for (int i = 0; i < 500; ++i) x.push_back(0.2 + 0.8 * (i + 0.5) / 500);
  for (const double q : quantiles(3, 500)) x.push_back(q);
  const auto fit = fit_tail(x).fit;
  ASSERT_TRUE(fit);
  EXPECT_NEAR(fit->alpha, 3, 0.25);
  EXPECT_GT(fit->x_min, 0.85);
}

TEST(Spectrum, FewOrEqualEigenvaluesHaveNoTailAndItIsSaidWhich) {
  const std::string_view few = "it has fewer than 50 eigenvalues other than zero";
  EXPECT_EQ(fit_tail(quantiles(3, 49)).why_not, few);
  EXPECT_TRUE(fit_tail(quantiles(3, 50)).fit);
  EXPECT_EQ(fit_tail(quantiles(3, 50)).why_not, "");
  EXPECT_FALSE(fit_tail(std::vector<double>(100, 1.0)).fit);
  EXPECT_EQ(fit_tail(std::vector<double>(100, 1.0)).why_not, "its eigenvalues are all equal");
  EXPECT_EQ(fit_tail(std::vector<double>(100, 0.0)).why_not, few);
  EXPECT_EQ(fit_tail({}).why_not, few);
}

}  // namespace
}  // namespace plumb
