#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/run_norm.h"

namespace plumb {
namespace {

// Mean 5, biased variance 5: y = (x - 5) / sqrt 5.
TEST(LayerNorm, OfTwoFourSixEight) {
  const auto y = test::run_norm("layer", 0, {2, 4, 6, 8});
  const double s = std::sqrt(5.0);
  const std::vector<double> want = {-3 / s, -1 / s, 1 / s, 3 / s};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(y[i], want[i], 1e-15);
}

// mean x^2 = 30.
TEST(RmsNorm, OfTwoFourSixEight) {
  const auto y = test::run_norm("rms", 0, {2, 4, 6, 8});
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_NEAR(y[i], 2.0 * static_cast<double>(i + 1) / std::sqrt(30.0), 1e-15);
}

TEST(NoNorm, ChangesNothing) {
  EXPECT_EQ(test::run_norm("none", 1e-5, {2, -4, 6}), (std::vector<double>{2, -4, 6}));
}

}  // namespace
}  // namespace plumb
