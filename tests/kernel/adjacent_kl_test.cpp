// Adjacent KL and predictions by SIMD against their plain twins in double, and where KL must not cancel; the
// largest elements of columns against a loop.
#include <gtest/gtest.h>

#include <cmath>

#include "plumb/kernel/measure.h"
#include "tests/kernel/guarded.h"

namespace plumb {
namespace {

using test::for_each_target;
using test::Guarded;

TEST(AdjacentKlKernel, IsItsTwinOnEveryInstructionSetAtEveryWidth) {
  for_each_target([] {
    std::mt19937_64 rng(4);
    for (const std::int64_t n : test::swept_lengths()) {
      Guarded<float> logits(5, n, n % 3);
      logits.randomise(rng, 3, -7);  // all below 0: a tail padded with zeros must not become the largest
      Guarded<double> same(5, n);
      same.copy(logits);
      const Mean got = adjacent_kl(logits.read()), want = plain::adjacent_kl(same.read());
      EXPECT_EQ(got.count, 4);
      EXPECT_NEAR(got.value(), want.value(), 1e-13 * (1 + want.value())) << n;
      EXPECT_TRUE(n == 1 || want.value() > 0.01) << n;
    }
  });
}

TEST(PredictionsKernel, IsItsTwinOnEveryInstructionSetAtEveryWidth) {
  for_each_target([] {
    std::mt19937_64 rng(6);
    for (const std::int64_t n : test::swept_lengths()) {
      Guarded<float> logits(3, n, n % 3);
      logits.randomise(rng, 3, -7);  // all below 0: a tail padded with zeros must not become the largest
      Guarded<double> same(3, n);
      same.copy(logits);
      const Predictions got = predictions(logits.read()), want = plain::predictions(same.read());
      EXPECT_EQ(got.entropy.count, 3);
      EXPECT_NEAR(got.entropy.sum, want.entropy.sum, 1e-13 * (1 + want.entropy.sum)) << n;
      EXPECT_NEAR(got.log_z.sum, want.log_z.sum, 1e-13 * (1 + std::abs(want.log_z.sum))) << n;
      EXPECT_TRUE(n < 8 || want.entropy.value() > 0.1) << n;
      logits.at(1, n / 2) = std::nanf("");
      EXPECT_TRUE(std::isnan(predictions(logits.read()).entropy.sum)) << n;
      EXPECT_TRUE(std::isnan(predictions(logits.read()).log_z.sum)) << n;
    }
  });
}

TEST(TopsKernel, AreTheLargestOfEachColumnOnEveryInstructionSetAtEveryWidth) {
  for_each_target([] {
    std::mt19937_64 rng(8);
    for (const std::int64_t n : test::swept_lengths())
      for (const bool absolute : {false, true}) {
        Guarded<float> x(3, n, n % 3), top(1, n);
        x.randomise(rng, 1);
        top.fill([](auto, std::int64_t j) { return j % 2 == 0 ? -INFINITY : 0.5; });
        std::vector<float> want;
        std::int64_t above = 0;
        for (std::int64_t j = 0; j < n; ++j) {
          want.push_back(top.at(0, j));
          for (std::int64_t i = 0; i < 3; ++i) {
            const float v = x.at(i, j);
            want.back() = std::max(want.back(), absolute ? std::abs(v) : v);
            above += v > 0;
          }
        }
        const std::span<float> tops(top.view().data, static_cast<std::size_t>(n));
        const Tops seen = raise_tops(x.read(), absolute, tops);
        EXPECT_EQ(seen.above, above) << n;
        EXPECT_FALSE(seen.nan) << n;
        for (std::int64_t j = 0; j < n; ++j) EXPECT_EQ(top.at(0, j), want[static_cast<std::size_t>(j)]) << n;
        x.at(1, n - 1) = std::nanf("");
        EXPECT_TRUE(raise_tops(x.read(), absolute, tops).nan) << n;
        EXPECT_ANY_THROW(raise_tops(x.read(), absolute, tops.first(tops.size() - 1)));
      }
  });
}

// Predictions that differ by a thousandth: KL is a ten-millionth of the sums that it is the difference of.
// Independent: Σ p (e^-x - 1 + x) with x = ln(p / q), which has no cancellation, in long double.
TEST(AdjacentKlKernel, KeepsFiveDigitsOfASmallDivergence) {
  for_each_target([] {
    std::mt19937_64 rng(5);
    std::normal_distribution<float> normal;
    Guarded<float> logits(2, 1200);
    logits.randomise(rng, 2);
    for (std::int64_t j = 0; j < 1200; ++j) logits.at(1, j) = logits.at(0, j) + 1e-3F * normal(rng);
    long double before = 0, after = 0, want = 0;
    for (std::int64_t j = 0; j < 1200; ++j) {
      before += std::exp(static_cast<long double>(logits.at(0, j)));
      after += std::exp(static_cast<long double>(logits.at(1, j)));
    }
    for (std::int64_t j = 0; j < 1200; ++j) {
      const long double x = static_cast<long double>(logits.at(1, j)) -
                            static_cast<long double>(logits.at(0, j)) - std::log(after / before);
      want += std::exp(static_cast<long double>(logits.at(1, j))) / after * (std::expm1(-x) + x);
    }
    EXPECT_GT(want, 1e-7L);
    EXPECT_LT(want, 1e-6L);
    EXPECT_NEAR(adjacent_kl(logits.read()).value() / static_cast<double>(want), 1, 1e-5);
  });
}

TEST(AdjacentKlKernel, NonFiniteLogitsReachTheResult) {
  constexpr float inf = std::numeric_limits<float>::infinity();
  for_each_target([] {
    for (const std::int64_t n : {1, 3, 8, 19, 37})
      for (std::int64_t j = 0; j < n; ++j)
        for (std::int64_t t = 0; t < 2; ++t) {
          Guarded<float> logits(2, n);
          logits.fill([&](auto, std::int64_t c) { return 0.25 * static_cast<double>(c) - 20; });
          for (const float bad : {std::nanf(""), inf}) {
            logits.at(t, j) = bad;
            EXPECT_TRUE(std::isnan(adjacent_kl(logits.read()).value()))
                << n << " " << t << " " << j << " " << bad;
          }
          if (n == 1) continue;
          logits.at(t, j) =
              -inf;  // an impossible class: before, it makes the KL infinite; after, it has no part in it
          const double kl = adjacent_kl(logits.read()).value();
          EXPECT_TRUE(t == 0 ? kl == static_cast<double>(inf) : std::isfinite(kl) && kl > 0)
              << n << " " << t << " " << j;
        }
  });
}

}  // namespace
}  // namespace plumb
