// Quantiles of Student's t against published tables and other closed forms.
#include "plumb/base/student.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "plumb/base/rng.h"

namespace plumb::test {
namespace {

// The density integrated by Simpson's rule in Python, and bisected; printed tables have the same to their
// digits.
TEST(Student, WidthsAreThoseOfTables) {
  for (const auto& [df, width95, width99] : {std::tuple{1, 12.706204736432095, 63.65674116287305},
                                             {2, 4.302652729911275, 9.92484320091807},
                                             {3, 3.182446305284263, 5.84090929975643},
                                             {4, 2.7764451051977987, 4.604094871415897},
                                             {9, 2.2621571628540993, 3.2498355440153697},
                                             {31, 2.0395134463964077, 2.744041919294029},
                                             {63, 1.998340542520741, 2.6561450251004697}}) {
    EXPECT_NEAR(student_width(0.95, df), width95, 1e-8) << df;
    EXPECT_NEAR(student_width(0.99, df), width99, 1e-8) << df;
  }
}

TEST(Student, OneDegreeIsCauchysAndTwoHaveAClosedForm) {
  for (const double a : {0.1, 0.5, 0.9, 0.999}) {
    EXPECT_NEAR(student_width(a, 1), std::tan(std::numbers::pi * a / 2), 1e-9 * student_width(a, 1));
    EXPECT_NEAR(student_width(a, 2), a * std::sqrt(2 / (1 - a * a)), 1e-9 * student_width(a, 2));
  }
}

TEST(Student, OfManyDegreesItIsTheNormalsAndTheInverseIsAnInverse) {
  EXPECT_NEAR(student_width(0.95, 1'000'000), normal_quantile(0.975), 1e-5);
  for (const std::int64_t df : {1, 2, 5, 40}) {
    EXPECT_NEAR(student_between(student_width(0.8, df), df), 0.8, 1e-12);
    EXPECT_EQ(student_between(0, df), 0);
  }
  EXPECT_TRUE(std::isnan(student_width(0.95, 0)));
}

}  // namespace
}  // namespace plumb::test
