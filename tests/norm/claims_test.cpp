// What the two source documents say of norms, with the right values where they are wrong (A23 to A25 are
// their errata's numbers).
#include <gtest/gtest.h>

#include <cmath>

#include "plumb/model/decoder.h"
#include "tests/support/run_component.h"
#include "tests/support/run_norm.h"

namespace plumb {
namespace {

using test::Matrix;

double mean_of(const std::vector<double>& v) {
  double sum = 0;
  for (double x : v) sum += x;
  return sum / static_cast<double>(v.size());
}
double squares_about(const std::vector<double>& v, double centre) {
  double sum = 0;
  for (double x : v) sum += (x - centre) * (x - centre);
  return sum;
}

// A23. The chapter has +-0.866, +-0.5 and +-0.05; its sigma is 4.33e-4, and eps = 1e-5 is larger than its
// square.
TEST(Claims, LayerNormOfNearlyEqualValues) {
  const std::vector<double> x{1, 1, 1, 1.001};
  EXPECT_NEAR(std::sqrt(squares_about(x, mean_of(x)) / 4), 4.33e-4, 1e-6);
  struct Row {
    double eps, first, fourth, unit;
  };
  for (const Row& r : {Row{0, -0.577, 1.732, 1e-3},
                       {1e-5, -0.0783, 0.2350, 1e-4},
                       {1e-3, -0.0079, 0.0237, 1e-4},
                       {0.1, -0.00079, 0.00237, 1e-5}}) {
    const auto y = test::run_norm("layer", r.eps, x);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(y[i], r.first, r.unit / 2) << r.eps;
    EXPECT_NEAR(y[3], r.fourth, r.unit / 2) << r.eps;
  }
}

// A24. Mean 0.913; the variance is 1/6 (unbiased 2/9), not 0.184.
TEST(Claims, RmsNormsOutputKeepsAMean) {
  const auto y = test::run_norm("rms", 0, {2, 4, 6, 8});
  EXPECT_NEAR(mean_of(y), 0.913, 5e-4);
  EXPECT_NEAR(squares_about(y, mean_of(y)) / 4, 1.0 / 6, 1e-12);
  EXPECT_NEAR(squares_about(y, mean_of(y)) / 3, 2.0 / 9, 1e-12);
  EXPECT_NEAR(squares_about(y, 0) / 4, 1, 1e-12);
}

// A25. [0.971, 0.990, 1.009, 1.028]: the offset hides the differences, which LayerNorm keeps.
TEST(Claims, AnOffsetMovesRmsNormAndNotLayerNorm) {
  const auto rms = test::run_norm("rms", 0, {102, 104, 106, 108});
  const double want[] = {0.971, 0.990, 1.009, 1.028};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(rms[i], want[i], 5e-4);
  const auto a = test::run_norm("layer", 0, {2, 4, 6, 8}),
             b = test::run_norm("layer", 0, {102, 104, 106, 108});
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(a[i], b[i], 1e-12);
}

// Eq. 2.4: dy_i/dx_j = delta_ij / s - 1 / (d s) - (x_i - mu)(x_j - mu) / (d s^3).
TEST(Claims, TheJacobianOfLayerNorm) {
  DecoderSpec s;
  s.norm_eps = 0, s.norm_affine = false;
  const auto norm = choose(norm_table(), "norm", "layer", s).make<double>(s);
  Matrix<double> x(1, 4), dy(1, 4);
  x.data = {0.3, -1.2, 2.5, 0.9};
  const double mu = mean_of(x.data), sigma = std::sqrt(squares_about(x.data, mu) / 4);
  for (std::size_t i = 0; i < 4; ++i) {
    std::ranges::fill(dy.data, 0.0);
    dy.data[i] = 1;
    const auto ran = test::run_component<double>(
        [&](Builder<double>& b, Value v) { return norm->build(b, v, "norm", 0); }, x, 1, dy);
    for (std::size_t j = 0; j < 4; ++j)
      EXPECT_NEAR(ran.grads.at("x").data[j],
                  (i == j ? 1 / sigma : 0) - 1 / (4 * sigma) -
                      (x.data[i] - mu) * (x.data[j] - mu) / (4 * std::pow(sigma, 3)),
                  1e-12);
  }
}

// B5: one group is not LayerNorm, it pools over the positions too.
TEST(Claims, GroupNormWithOneGroupIsNotLayerNorm) {
  DecoderSpec s;
  s.norm_eps = 0, s.norm_affine = false, s.norm_groups = 1, s.d_model = 2;
  Matrix<double> x(2, 2);
  x.data = {0, 2, 10, 12};  // LayerNorm: (-1, 1) twice
  const auto group = choose(norm_table(), "norm", "group", s).make<double>(s);
  const auto ran = test::run_component<double>(
      [&](Builder<double>& b, Value v) { return group->build(b, v, "norm", 0); }, x, 1, {});
  const double sigma = std::sqrt(26.0);  // of 0, 2, 10, 12 about 6
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(ran.y.data[i], (x.data[i] - 6) / sigma, 1e-12);
}

}  // namespace
}  // namespace plumb
