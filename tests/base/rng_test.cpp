#include "plumb/base/rng.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

namespace plumb {
namespace {

// The known answers that the authors publish with Random123 (tests/kat_vectors, "philox4x32 10").
TEST(Philox, GivesTheKnownAnswersOfRandom123) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (uint32x4{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({~0U, ~0U, ~0U, ~0U}, {~0U, ~0U}),
            (uint32x4{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (uint32x4{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// The test suite of the FNV authors (draft-eastlake-fnv).
TEST(Fnv1a, GivesThePublishedHashes) {
  EXPECT_EQ(fnv1a(""), 0xcbf29ce484222325U);
  EXPECT_EQ(fnv1a("a"), 0xaf63dc4c8601ec8cU);
  EXPECT_EQ(fnv1a("foobar"), 0x85944171f73967e8U);
}

TEST(Stream, DiffersWhenSeedNameStepSampleOrBlockDiffers) {
  const auto base = stream(1, "data").at(2, 3, 4);
  EXPECT_EQ(base, stream(1, "data").at(2, 3, 4));
  EXPECT_NE(base, stream(2, "data").at(2, 3, 4));
  EXPECT_NE(base, stream(1, "init").at(2, 3, 4));
  EXPECT_NE(base, stream(1, "data").at(3, 3, 4));
  EXPECT_NE(base, stream(1, "data").at(2, 4, 4));
  EXPECT_NE(base, stream(1, "data").at(2, 3, 5));
  const std::uint64_t far = std::uint64_t{1} << 33;  // beyond 32 bits too
  EXPECT_NE(base, stream(1, "data").at(2 + far, 3, 4));
  EXPECT_NE(base, stream(1, "data").at(2, 3 + far, 4));
  EXPECT_NE(base, stream(1, "data").at(2, 3, 4 + far));
  EXPECT_NE(stream(1, "data").at(far, 0, 0), stream(1, "data").at(0, far, 0));
}

TEST(Stream, FillingGivesWhatElementsGive) {
  const Stream s = stream(7, "x");
  std::vector<double> normal(5), uniform(5);
  std::vector<float> rounded(5), halves(5);
  s.fill_normal(1.0, 2.0, normal, 3, 4);
  s.fill_normal(1.0, 2.0, rounded, 3, 4);
  s.fill_uniform(-1.0, 1.0, uniform, 3, 4);
  s.fill_uniform(-1.0, 1.0, halves, 3, 4);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(normal[i], 1.0 + 2.0 * s.normal(3, 4, i));
    EXPECT_EQ(rounded[i], static_cast<float>(normal[i]));
    EXPECT_EQ(uniform[i], -1.0 + 2.0 * s.uniform(3, 4, i));
    EXPECT_EQ(halves[i], static_cast<float>(uniform[i]));
  }
}

TEST(Stream, UniformsStayBelowOneAndAreFlat) {
  const Stream s = stream(3, "u");
  constexpr int n = 200000;
  double sum = 0, squares = 0;
  for (std::uint64_t i = 0; i < n; ++i) {
    const double u = s.uniform(0, 0, i);
    const float f = s.uniform_float(0, 0, i);
    ASSERT_TRUE(u >= 0 && u < 1 && f >= 0 && f < 1);
    ASSERT_EQ(f, static_cast<float>(std::floor(u * 0x1p24) * 0x1p-24));  // the same word, fewer bits
    sum += u;
    squares += u * u;
  }
  // Mean 1/2 and second moment 1/3, within four standard errors: sqrt(1/12/n) and sqrt(4/45/n).
  EXPECT_NEAR(sum / n, 0.5, 4 * std::sqrt(1.0 / 12 / n));
  EXPECT_NEAR(squares / n, 1.0 / 3, 4 * std::sqrt(4.0 / 45 / n));
}

TEST(Stream, BelowIsUnbiased) {
  const Stream s = stream(5, "below");
  EXPECT_EQ(s.below(0, 0, 0, 0), 0U);
  EXPECT_EQ(s.below(1, 0, 0, 0), 0U);
  constexpr std::uint64_t cells = 7;
  constexpr double n = 70000;
  std::vector<double> counts(cells);
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(n); ++i) ++counts.at(s.below(cells, 1, 2, i));
  double chi_squared = 0;
  for (const double c : counts) chi_squared += (c - n / cells) * (c - n / cells) / (n / cells);
  EXPECT_LT(chi_squared, 22.46);  // the 99.9 % point for 6 degrees of freedom
}

// With n = 3 * 2^62 a quarter of all words must be thrown away; without that [0, 2^62) would come up as often
// as the rest together.
TEST(Stream, BelowThrowsUnfairWordsAway) {
  const Stream s = stream(5, "below");
  constexpr std::uint64_t n = 3ULL << 62;
  constexpr int draws = 30000;
  std::vector<int> thirds(3);
  for (std::uint64_t i = 0; i < draws; ++i) {
    const std::uint64_t x = s.below(n, 0, 0, i);
    ASSERT_LT(x, n);
    ++thirds.at(x >> 62);
  }
  for (const int count : thirds) EXPECT_NEAR(count, draws / 3.0, 4 * std::sqrt(draws * 2.0 / 9));
}

// Wichura (1988) gives these three for checking an implementation.
TEST(NormalQuantile, GivesThePapersValues) {
  EXPECT_NEAR(normal_quantile(0.25), -0.6744897501960817, 1e-15);
  EXPECT_NEAR(normal_quantile(0.001), -3.090232306167814, 1e-14);
  EXPECT_NEAR(normal_quantile(1e-20), -9.262340089798408, 1e-14);
}

// Phi(x) = erfc(-x / sqrt 2) / 2, from the C library. An error e in x moves log p by about |x| e in the tail.
TEST(NormalQuantile, InvertsTheDistributionFunction) {
  for (double p = 1e-300; p < 0.5; p *= 1.37) {
    const double x = normal_quantile(p), back = std::erfc(-x / std::numbers::sqrt2) / 2;
    EXPECT_NEAR(back / p, 1, 1e-15 * (10 + 4 * x * x)) << p;
  }
  for (double p = 0.01; p < 1; p += 0.01)
    EXPECT_NEAR(std::erfc(-normal_quantile(p) / std::numbers::sqrt2) / 2, p, 5e-16) << p;
}

TEST(NormalQuantile, IsOddIncreasingAndDefinedAtTheEnds) {
  double last = -std::numeric_limits<double>::infinity();
  for (int k = 1; k < 4096; ++k) {
    const double p = k / 4096.0, x = normal_quantile(p);
    EXPECT_EQ(x, -normal_quantile(1 - p));  // 1 - p is exact here
    EXPECT_GT(x, last);
    last = x;
  }
  EXPECT_EQ(normal_quantile(0.5), 0);
  EXPECT_EQ(normal_quantile(0), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(normal_quantile(1), std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(normal_quantile(-0.1)) && std::isnan(normal_quantile(1.1)));
  EXPECT_TRUE(std::isnan(normal_quantile(std::numeric_limits<double>::quiet_NaN())));
  EXPECT_TRUE(std::isfinite(normal_quantile(std::numeric_limits<double>::denorm_min())));
}

class Normals : public testing::Test {
 protected:
  static constexpr std::size_t n = 400000;
  std::vector<double> x = std::vector<double>(n);
  void SetUp() override { stream(11, "normals").fill_normal(0, 1, x); }
  double moment(int k) const {
    double sum = 0;
    for (const double v : x) sum += std::pow(v, k);
    return sum / n;
  }
};

// The standard normal's moments are 0, 1, 0, 3; the variances of the sample moments are 1, 2, 15, 96 over n.
TEST_F(Normals, HaveTheMomentsOfANormal) {
  EXPECT_NEAR(moment(1), 0, 4 * std::sqrt(1.0 / n));
  EXPECT_NEAR(moment(2), 1, 4 * std::sqrt(2.0 / n));
  EXPECT_NEAR(moment(3), 0, 4 * std::sqrt(15.0 / n));
  EXPECT_NEAR(moment(4), 3, 4 * std::sqrt(96.0 / n));
}

TEST_F(Normals, PassKolmogorovSmirnov) {
  std::sort(x.begin(), x.end());
  double distance = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double cdf = std::erfc(-x[i] / std::numbers::sqrt2) / 2;
    distance = std::max({distance, cdf - static_cast<double>(i) / n, static_cast<double>(i + 1) / n - cdf});
  }
  EXPECT_LT(distance * std::sqrt(static_cast<double>(n)),
            1.95);  // the 99.9 % point of Kolmogorov's distribution
}

TEST_F(Normals, HaveTheRightTailsOnBothSides) {
  for (const double cut : {2.0, 3.0, 4.0}) {
    const double expected = n * std::erfc(cut / std::numbers::sqrt2) / 2;
    const auto above = std::count_if(x.begin(), x.end(), [&](double v) { return v > cut; });
    const auto below = std::count_if(x.begin(), x.end(), [&](double v) { return v < -cut; });
    EXPECT_NEAR(static_cast<double>(above), expected, 4 * std::sqrt(expected)) << cut;
    EXPECT_NEAR(static_cast<double>(below), expected, 4 * std::sqrt(expected)) << cut;
  }
}

TEST_F(Normals, OfNeighboursAreUncorrelated) {
  double sum = 0;
  for (std::size_t i = 0; i + 1 < n; ++i) sum += x[i] * x[i + 1];
  EXPECT_NEAR(sum / n, 0, 4 / std::sqrt(static_cast<double>(n)));
}

}  // namespace
}  // namespace plumb
