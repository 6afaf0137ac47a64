// Paired differences and rank correlations against small cases done by hand.
#include "plumb/study/statistics.h"

#include <gtest/gtest.h>

#include <cmath>

namespace plumb::test {
namespace {

using V = std::vector<double>;

// Differences 1, 2, 3, 6: mean 3, variance 14/3, standard error sqrt(14/12), Student's 97.5 % quantile of
// three degrees of freedom 3.182446 (tables).
TEST(Paired, FourPairs) {
  const PairedDifference d = paired(V{2, 4, 6, 10}, V{1, 2, 3, 4});
  EXPECT_NEAR(d.mean, 3, 1e-12);
  EXPECT_NEAR(d.high - d.mean, 3.182446 * std::sqrt(14.0 / 12), 1e-5);
  EXPECT_NEAR(d.mean - d.low, d.high - d.mean, 1e-12);
}

TEST(Paired, OfOnePairThereIsNoInterval) {
  const PairedDifference d = paired(V{3}, V{1});
  EXPECT_EQ(d.mean, 2);
  EXPECT_TRUE(std::isnan(d.low) && std::isnan(d.high));
}

// Sums 2, 12, 6 over sizes 1, 3, 2 against 0: 20 / 6 a target; residuals -4/3, 2, -2/3, mean size 2.
TEST(Paired, GroupsOfUnequalSizeAreARatio) {
  const V zero(4, 0.0);
  const PairedDifference d = paired_ratio(V{2, 12, 6, 99}, zero, V{1, 3, 2, 0});
  EXPECT_NEAR(d.mean, 10.0 / 3, 1e-12);
  const double squares = 16.0 / 9 + 4 + 4.0 / 9;
  EXPECT_NEAR(d.high - d.mean, 4.302653 * std::sqrt(squares / 2 / 3) / 2, 1e-5);
}

TEST(Paired, EqualSizesAreThePlainDifference) {
  const V a{2, 4, 6, 10}, b{1, 2, 3, 4};
  const PairedDifference plain = paired(a, b), ratio = paired_ratio(a, b, V(4, 5.0));
  EXPECT_NEAR(ratio.mean, plain.mean / 5, 1e-12);
  EXPECT_NEAR(ratio.high, plain.high / 5, 1e-12);
}

TEST(Ranks, EqualValuesShareTheirMean) {
  EXPECT_EQ(ranks(V{10, 30, 20, 30}), (V{1, 3.5, 2, 3.5}));
  EXPECT_EQ(ranks(V{5, 5, 5}), (V{2, 2, 2}));
}

// Without ties rho = 1 - 6 sum d^2 / (n (n^2 - 1)). IQ and hours of television, a textbook's: rho = -29/165.
TEST(Spearman, ATextbooksCase) {
  const RankCorrelation r =
      spearman(V{106, 100, 86, 101, 99, 103, 97, 113, 112, 110}, V{7, 27, 2, 50, 28, 29, 20, 12, 6, 17});
  EXPECT_NEAR(r.rho, -29.0 / 165, 1e-12);
  EXPECT_EQ(r.n, 10U);
  EXPECT_NEAR(r.p, 0.633, 0.02);  // of 400,000 orders in Python; ours are 9,999, a standard error of 0.005
}

TEST(Spearman, PIsExactWhenThereAreFewPairs) {
  const RankCorrelation up = spearman(V{1, 2, 3, 4}, V{2, 4, 8, 16}),
                        down = spearman(V{1, 2, 3, 4}, V{4, 3, 2, 1});
  EXPECT_NEAR(up.rho, 1, 1e-12);
  EXPECT_NEAR(down.rho, -1, 1e-12);
  EXPECT_NEAR(up.p, 2.0 / 24, 1e-12);  // of 24 orders two are as far from 0
  EXPECT_NEAR(down.p, 2.0 / 24, 1e-12);
  // Of the 12 orders of {1, 2, 2, 3} the ascending and the descending one.
  EXPECT_NEAR(spearman(V{1, 2, 2, 3}, V{1, 2, 2, 3}).p, 2.0 / 12, 1e-12);
}

TEST(Spearman, WhatCannotBeRanked) {
  EXPECT_TRUE(std::isnan(spearman(V{1, 2}, V{1, 2}).rho));
  EXPECT_TRUE(std::isnan(spearman(V{1, 2, 3}, V{5, 5, 5}).rho));
  const RankCorrelation r = spearman(V{1, 2, std::nan(""), 3, 4}, V{1, 2, 7, 3, 4});
  EXPECT_EQ(r.n, 4U);
  EXPECT_NEAR(r.rho, 1, 1e-12);
}

}  // namespace
}  // namespace plumb::test
