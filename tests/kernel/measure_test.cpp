#include "plumb/kernel/measure.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "tests/support/allocations.h"
#include "tests/support/reference.h"

namespace plumb {
namespace {

using test::matches;
using test::Matrix;
using test::reference;
using test::What;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

template <class R>
class MeasureTest : public testing::Test {};
using Reals = testing::Types<float, double>;
TYPED_TEST_SUITE(MeasureTest, Reals);

template <class R>
View<const R> view(const Matrix<R>& m) {
  return m.view();
}

TYPED_TEST(MeasureTest, AdjacentKlIsTheReference) {
  using R = TypeParam;
  const auto& e = reference("adjacent_kl");
  const Matrix<R> logits(e.in("logits"));
  const Mean mean = adjacent_kl<R>(logits.view());
  EXPECT_EQ(mean.count, logits.rows - 1);
  EXPECT_TRUE(matches<R>(mean.value(), e, e.out("mean"), What::value));
  Matrix<R> each(1, logits.rows - 1);
  for (std::int64_t t = 0; t + 1 < logits.rows; ++t)
    each.data[static_cast<std::size_t>(t)] = static_cast<R>(adjacent_kl<R>(view(logits).slice(t, 2)).value());
  EXPECT_TRUE(matches(each, e, e.out("kl"), What::value));
}

TYPED_TEST(MeasureTest, AdjacentKlOfLargeEqualAndImpossibleClasses) {
  using R = TypeParam;
  const R inf = std::numeric_limits<R>::infinity();
  Matrix<R> logits(2, 3);
  logits.data = {1e4, 0, -1e4, 1e4, 0, -1e4};
  EXPECT_EQ(adjacent_kl<R>(logits.view()).value(), 0);
  logits.data = {0, 0, 0, 0, 0, -inf};  // p = 0 now, 1/3 before: 2 · 1/2 ln((1/2) / (1/3))
  EXPECT_NEAR(adjacent_kl<R>(logits.view()).value(), std::log(1.5), 1e-15);
  logits.data = {0, 0, -inf, 0, 0, 0};  // the other way round
  EXPECT_EQ(adjacent_kl<R>(logits.view()).value(), INFINITY);
  EXPECT_TRUE(std::isnan(adjacent_kl<R>(view(logits).slice(0, 1)).value()));  // no pair
}

TYPED_TEST(MeasureTest, EntropyIsTheReference) {
  using R = TypeParam;
  const auto& e = reference("attention_entropy");
  const auto& entropy = e.out("entropy");  // (1, H, T)
  const std::int64_t n_head = entropy.dim(1), block = entropy.dim(2);
  Matrix<R> by_position(block, n_head), each(n_head, block - 1);
  for (std::int64_t h = 0; h < n_head; ++h)
    for (std::int64_t t = 0; t < block; ++t) {
      const double x = entropy.data[static_cast<std::size_t>(h * block + t)];
      by_position.view().row(t)[h] = static_cast<R>(x);
      if (t > 0) each.view().row(h)[t - 1] = static_cast<R>(normalised_entropy(x, t + 1));
    }
  EXPECT_TRUE(matches(each, e, e.out("normalised_rows_1_to_4"), What::value));
  const Mean mean = normalised_entropy<R>(by_position.view(), block);
  EXPECT_EQ(mean.count, n_head * (block - 1));
  EXPECT_TRUE(matches<R>(mean.value(), e, e.out("mean"), What::value));

  Mean by_head;
  for (std::int64_t h = 0; h < n_head; ++h)
    by_head.merge(normalised_entropy<R>(view(by_position).columns(h, 1), block));
  EXPECT_NEAR(by_head.value(), mean.value(), 1e-14);
  EXPECT_TRUE(std::isnan(normalised_entropy<R>(view(by_position), 1).value()));  // every row sees one key
}

TYPED_TEST(MeasureTest, KeyCosineIsTheReference) {
  using R = TypeParam;
  const auto& e = reference("key_cosine");
  const Matrix<R> keys(e.in("K"));
  std::array<double, 8> scratch;
  EXPECT_TRUE(matches<R>(key_cosine_mean<R>(keys.view(), scratch), e, e.out("mean"), What::value));
  EXPECT_TRUE(
      matches<R>(key_cosine_mean<R>(keys.view(), scratch), e, e.out("mean_closed_form"), What::value));
  EXPECT_TRUE(matches<R>(key_cosine_max<R>(keys.view(), scratch), e, e.out("max"), What::value));
}

TYPED_TEST(MeasureTest, AZeroKeyHasCosineZero) {
  using R = TypeParam;
  Matrix<R> keys(3, 2);
  keys.data = {2, 0, 0, 0, 3, 3};
  std::array<double, 3> scratch;
  EXPECT_NEAR(key_cosine_mean<R>(keys.view(), scratch), std::sqrt(0.5) / 3, 1e-15);
  EXPECT_NEAR(key_cosine_max<R>(keys.view(), scratch), std::sqrt(0.5), 1e-15);
  EXPECT_TRUE(std::isnan(key_cosine_mean<R>(view(keys).slice(0, 1), scratch)));
}

/// Against the textbook sums, on a strided view with tails, and for numbers far from zero.
TYPED_TEST(MeasureTest, MomentsAreThoseOfThePopulation) {
  using R = TypeParam;
  Matrix<R> x(7, 21);
  for (std::size_t i = 0; i < x.data.size(); ++i)
    x.data[i] = static_cast<R>(4096 + static_cast<int>(i * 37 % 101) / 8.0);
  const View<const R> part = view(x).columns(2, 19);
  double mean = 0, squares = 0;
  for (std::int64_t i = 0; i < part.rows; ++i)
    for (std::int64_t j = 0; j < part.cols; ++j)
      mean += static_cast<double>(part.row(i)[j]) / static_cast<double>(part.size());
  for (std::int64_t i = 0; i < part.rows; ++i)
    for (std::int64_t j = 0; j < part.cols; ++j)
      squares += std::pow(static_cast<double>(part.row(i)[j]) - mean, 2);
  const Moments all = moments(part);
  EXPECT_NEAR(all.mean, mean, 1e-11);
  EXPECT_NEAR(all.std(), std::sqrt(squares / static_cast<double>(part.size())), 1e-12);

  Moments merged;
  for (const auto& [first, n] : {std::array<std::int64_t, 2>{0, 1}, {1, 4}, {5, 0}, {5, 2}})
    merged.merge(moments(part.slice(first, n)));
  EXPECT_EQ(merged.count, all.count);
  EXPECT_NEAR(merged.mean, all.mean, 1e-11);
  EXPECT_NEAR(merged.std(), all.std(), 1e-12);
  EXPECT_TRUE(std::isnan(Moments{}.std()));
}

/// Far from zero, where sums of powers of x itself would leave nothing of the fourth moment.
TYPED_TEST(MeasureTest, ASummaryIsTheTextbookSums) {
  using R = TypeParam;
  Matrix<R> x(7, 21);
  for (std::size_t i = 0; i < x.data.size(); ++i)
    x.data[i] = static_cast<R>(-4096 - static_cast<int>(i * i * 37 % 101) / 8.0);
  const View<const R> part = view(x).columns(2, 19);
  double n = 0, mean = 0, squares = 0, largest = 0, m2 = 0, m3 = 0, m4 = 0;
  const auto each = [&](auto f) {
    for (std::int64_t i = 0; i < part.rows; ++i)
      for (std::int64_t j = 0; j < part.cols; ++j) f(static_cast<double>(part.row(i)[j]));
  };
  each([&](double v) { mean += v, ++n, squares += v * v, largest = std::max(largest, std::abs(v)); });
  mean /= n;
  each([&](double v) {
    const double d = v - mean;
    m2 += d * d, m3 += d * d * d, m4 += d * d * d * d;
  });
  Summary merged;
  for (const auto& [first, rows] : {std::array<std::int64_t, 2>{0, 1}, {1, 4}, {5, 0}, {5, 2}})
    merged.merge(summary(part.slice(first, rows)));
  for (const Summary& s : {summary(part), merged}) {
    EXPECT_EQ(s.count, part.size());
    EXPECT_NEAR(s.mean, mean, 1e-11);
    EXPECT_NEAR(s.rms(), std::sqrt(squares / n), 1e-11);
    EXPECT_EQ(s.largest, largest);
    EXPECT_NEAR(s.m2, m2, 1e-9 * m2);
    EXPECT_NEAR(s.m3, m3, 1e-9 * std::pow(m2, 1.5));
    EXPECT_NEAR(s.kurtosis(), n * m4 / (m2 * m2), 1e-9);
  }
  EXPECT_TRUE(std::isnan(Summary{}.kurtosis()) && std::isnan(Summary{}.rms()));
}

/// -1, 0, 0, 1: m4 / n = 1/2 over (1/2)². A coin has the smallest possible, 1.
TYPED_TEST(MeasureTest, KurtosisOfKnownDistributions) {
  using R = TypeParam;
  Matrix<R> x(1, 4);
  x.data = {-1, 0, 0, 1};
  EXPECT_EQ(summary<R>(x.view()).kurtosis(), 2);
  x.data = {-3, 3, 3, -3};
  EXPECT_EQ(summary<R>(x.view()).kurtosis(), 1);
  EXPECT_EQ(summary<R>(x.view()).largest, 3);
}

TYPED_TEST(MeasureTest, DistanceOfViews) {
  using R = TypeParam;
  Matrix<R> a(2, 11, R(1)), b(2, 11, R(3));
  b.data[13] = 1;
  EXPECT_EQ(squared_distance<R>(a.view(), b.view()), 21 * 4);
  EXPECT_ANY_THROW(squared_distance<R>(a.view(), view(b).columns(0, 10)));
}

TYPED_TEST(MeasureTest, PredictionsOfKnownDistributions) {
  using R = TypeParam;
  const R inf = std::numeric_limits<R>::infinity();
  Matrix<R> z(3, 4);
  z.data = {1e4, 1e4, 1e4, 1e4, 0, 0, -inf, -inf, 1e4, 0, 0, 0};
  const auto of = [&](std::int64_t row) { return predictions<R>(view(z).slice(row, 1)); };
  EXPECT_NEAR(of(0).entropy.value(), std::log(4.0), 1e-15);
  EXPECT_NEAR(of(0).log_z.value(), 1e4 + std::log(4.0), 1e-11);
  EXPECT_NEAR(of(1).entropy.value(), std::log(2.0), 1e-15);  // impossible classes have no part in it
  EXPECT_EQ(of(2).entropy.value(), 0);
  EXPECT_EQ(of(2).log_z.value(), 1e4);
  const Predictions all = predictions<R>(z.view());
  EXPECT_EQ(all.entropy.count, 3);
  EXPECT_NEAR(all.entropy.sum, std::log(8.0), 1e-15);
}

TYPED_TEST(MeasureTest, PairsOfKeys) {
  using R = TypeParam;
  Matrix<R> keys(4, 2);
  keys.data = {1, 0, 2, 0, 0, 3, -1, 0};  // cosines: 1, 0, 0, -1, -1, 0
  std::array<double, 4> scratch;
  const KeyPairs p = key_pairs<R>(keys.view(), 0.95, scratch);
  EXPECT_EQ(p.count, 6);
  EXPECT_EQ(p.above, 1);
  EXPECT_EQ(p.largest, 1);
  EXPECT_EQ(key_pairs<R>(keys.view(), -0.5, scratch).above, 4);
}

TYPED_TEST(MeasureTest, NaNReachesTheResult) {
  using R = TypeParam;
  std::array<double, 8> scratch;
  for (std::size_t at = 0; at < 20; ++at) {
    Matrix<R> x(4, 5, R(1));
    x.data[at] = static_cast<R>(nan);
    EXPECT_TRUE(std::isnan(moments<R>(x.view()).std())) << at;
    EXPECT_TRUE(std::isnan(adjacent_kl<R>(x.view()).value())) << at;
    const Summary s = summary<R>(x.view());
    EXPECT_TRUE(std::isnan(s.mean) && std::isnan(s.rms()) && std::isnan(s.kurtosis()) &&
                std::isnan(s.largest))
        << at;
    EXPECT_TRUE(std::isnan(predictions<R>(x.view()).entropy.value())) << at;
    EXPECT_TRUE(std::isnan(predictions<R>(x.view()).log_z.value())) << at;
    EXPECT_TRUE(std::isnan(squared_distance<R>(x.view(), Matrix<R>(4, 5).view()))) << at;
    EXPECT_TRUE(std::isnan(key_cosine_mean<R>(x.view(), scratch))) << at;
    EXPECT_TRUE(std::isnan(key_cosine_max<R>(x.view(), scratch))) << at;
    EXPECT_EQ(std::isnan(normalised_entropy<R>(x.view(), 4).value()), at >= 5)
        << at;  // position 0 is left out
  }
}

TYPED_TEST(MeasureTest, AllocatesNothing) {
  using R = TypeParam;
  const Matrix<R> x(8, 8, R(1));
  std::array<double, 8> scratch;
  EXPECT_EQ(test::allocations_of_ours([&] {
              (void)moments<R>(x.view());
              (void)summary<R>(x.view());
              (void)predictions<R>(x.view());
              (void)adjacent_kl<R>(x.view());
              (void)normalised_entropy<R>(x.view(), 4);
              (void)key_cosine_mean<R>(x.view(), scratch);
              (void)key_cosine_max<R>(x.view(), scratch);
            }),
            0);
}

}  // namespace
}  // namespace plumb
