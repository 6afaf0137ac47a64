// Against printed tables and closed forms, not against ourselves.
#include "plumb/base/student.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "plumb/base/error.h"

namespace plumb::test {
namespace {

// NIST/SEMATECH e-Handbook 1.3.6.7.2, upper critical values, to three places.
TEST(Student, TheTableOfQuantiles) {
  struct Row {
    int dof;
    double at_90, at_95, at_975, at_99, at_995;
  };
  for (const Row& r :
       {Row{1, 3.078, 6.314, 12.706, 31.821, 63.657}, Row{2, 1.886, 2.920, 4.303, 6.965, 9.925},
        Row{3, 1.638, 2.353, 3.182, 4.541, 5.841}, Row{4, 1.533, 2.132, 2.776, 3.747, 4.604},
        Row{5, 1.476, 2.015, 2.571, 3.365, 4.032}, Row{9, 1.383, 1.833, 2.262, 2.821, 3.250},
        Row{10, 1.372, 1.812, 2.228, 2.764, 3.169}, Row{29, 1.311, 1.699, 2.045, 2.462, 2.756},
        Row{100, 1.290, 1.660, 1.984, 2.364, 2.626}}) {
    EXPECT_NEAR(student_quantile(0.9, r.dof), r.at_90, 6e-4) << r.dof;
    EXPECT_NEAR(student_quantile(0.95, r.dof), r.at_95, 6e-4) << r.dof;
    EXPECT_NEAR(student_quantile(0.975, r.dof), r.at_975, 6e-4) << r.dof;
    EXPECT_NEAR(student_quantile(0.99, r.dof), r.at_99, 6e-4) << r.dof;
    EXPECT_NEAR(student_quantile(0.995, r.dof), r.at_995, 6e-4) << r.dof;
  }
}

// One degree of freedom is Cauchy's distribution, tan(pi (p - 1/2)); of two, a sqrt(2 / (1 - a^2)) with a = 2p - 1.
TEST(Student, ClosedForms) {
  for (const double p : {0.001, 0.2, 0.5, 0.75, 0.975, 0.999}) {
    const double a = 2 * p - 1, cauchy = std::tan(std::numbers::pi * (p - 0.5)),
                 two = a * std::sqrt(2 / (1 - a * a));
    EXPECT_NEAR(student_quantile(p, 1), cauchy, 1e-9 * (1 + std::abs(cauchy)));
    EXPECT_NEAR(student_quantile(p, 2), two, 1e-9 * (1 + std::abs(two)));
  }
}

// Simpson's rule over the density Gamma((n+1)/2) / (sqrt(n pi) Gamma(n/2)) (1 + t^2/n)^(-(n+1)/2).
TEST(Student, TheDistributionIsTheIntegralOfItsDensity) {
  for (const int n : {3, 4, 7, 12, 29}) {
    const double norm =
        std::exp(std::lgamma((n + 1) / 2.0) - std::lgamma(n / 2.0)) / std::sqrt(n * std::numbers::pi);
    const auto density = [&](double t) { return norm * std::pow(1 + t * t / n, -(n + 1) / 2.0); };
    const double end = 2.3;
    constexpr int pieces = 2000;
    double sum = density(0) + density(end);
    for (int i = 1; i < pieces; ++i) sum += (i % 2 ? 4 : 2) * density(end * i / pieces);
    EXPECT_NEAR(student_cdf(end, n), 0.5 + sum * end / pieces / 3, 1e-10) << n;
    EXPECT_NEAR(student_cdf(-end, n), 0.5 - sum * end / pieces / 3, 1e-10) << n;
  }
}

TEST(Student, ManyDegreesOfFreedomAreTheNormalDistribution) {
  EXPECT_NEAR(student_quantile(0.975, 1'000'000), 1.959964, 1e-5);  // tables
}

TEST(Student, WhatHasNoAnswer) {
  EXPECT_THROW(student_quantile(0.975, 0), Error);
  EXPECT_THROW(student_quantile(1, 3), Error);
  EXPECT_THROW(student_quantile(std::nan(""), 3), Error);
  EXPECT_THROW(student_cdf(1, 0), Error);
}

}  // namespace
}  // namespace plumb::test
