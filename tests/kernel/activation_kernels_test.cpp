#include "plumb/kernel/rows.h"
#include "tests/kernel/guarded.h"

namespace plumb {
namespace {

using test::expect_gradient;
using test::for_each_target;
using test::Guarded;
using test::kEps;
using test::near;
using test::same_bits;
using test::swept_lengths;

template <class R>
void forward(bool gelu, bool plain, View<const R> x, double gain, View<R> y) {
  if (gelu)
    plain ? plain::gelu_forward<R>(x, gain, y) : gelu_forward<R>(x, gain, y);
  else
    plain ? plain::relu_forward<R>(x, gain, y) : relu_forward<R>(x, gain, y);
}

template <class R>
void backward(bool gelu, bool plain, View<const R> dy, View<const R> x, double gain, Sink<R> dx) {
  if (gelu)
    plain ? plain::gelu_backward<R>(dy, x, gain, dx) : gelu_backward<R>(dy, x, gain, dx);
  else
    plain ? plain::relu_backward<R>(dy, x, gain, dx) : relu_backward<R>(dy, x, gain, dx);
}

TEST(ActivationKernels, PlainBackwardIsTheDerivative) {
  for (const bool gelu : {true, false})
    for (const double scale : {0.1, 1.0, 10.0}) {
      std::mt19937_64 rng(1);
      Guarded<double> x(4, 9, 1), y(4, 9), dy(4, 9), dx(4, 9);
      x.randomise(rng, scale);
      dy.randomise(rng, 1);
      backward<double>(gelu, true, dy.view(), x.view(), 1.7, {dx.view(), true});
      const auto loss = [&] {
        forward<double>(gelu, true, x.view(), 1.7, y.view());
        return plain::dot<double>(y.view(), dy.view());
      };
      expect_gradient(x, dx, gelu ? 1e-3 : 1e-5 * scale, loss, "x");
    }
}

TEST(ActivationKernels, FastIsPlain) {
  for_each_target([] {
    for (const bool gelu : {true, false})
      for (const std::int64_t n : swept_lengths()) {
        std::mt19937_64 rng{std::uint64_t(n)};
        const std::int64_t gap = n % 3;
        Guarded<float> x(3, n, gap, n % 2), y(3, n, gap), dy(3, n, 1), dx(3, n, gap);
        Guarded<double> px(3, n), py(3, n), pdy(3, n), pdx(3, n);
        x.randomise(rng, n % 2 ? 1 : 6);
        dy.randomise(rng, 1);
        dx.randomise(rng, 1);
        px.copy(x), pdy.copy(dy), pdx.copy(dx);
        const bool overwrite = n % 2 == 0;
        for (const bool plain : {false, true})
          if (plain) {
            forward<double>(gelu, true, px.view(), 1.25, py.view());
            backward<double>(gelu, true, pdy.view(), px.view(), 1.25, {pdx.view(), overwrite});
          } else {
            forward<float>(gelu, false, x.view(), 1.25, y.view());
            backward<float>(gelu, false, dy.view(), x.view(), 1.25, {dx.view(), overwrite});
          }
        EXPECT_TRUE(near(y, py, [&](std::int64_t i, std::int64_t j) {
          return 1.25 * 2e-7 * std::max(1.0, std::abs(px.at(i, j)));
        })) << n;
        EXPECT_TRUE(near(dx, pdx, [&](std::int64_t i, std::int64_t j) {
          return 1.25 * 5e-7 * std::abs(pdy.at(i, j)) + 2 * kEps * (std::abs(pdx.at(i, j)) + 1);
        })) << n;
      }
  });
}

/// A sweep of one row over [-20, 20] and the float specials: relatively exact in the tail, until it
/// underflows.
TEST(ActivationKernels, GeluIsExactInItsTails) {
  for_each_target([] {
    constexpr std::int64_t n = 40001;
    Guarded<float> x(1, n), y(1, n), dx(1, n), ones(1, n);
    x.fill([](std::int64_t, std::int64_t j) { return double(float(-20 + double(j) * 1e-3)); });
    ones.fill([](std::int64_t, std::int64_t) { return 1.0; });
    gelu_forward<float>(x.view(), 1, y.view());
    gelu_backward<float>(ones.view(), x.view(), 1, {dx.view(), true});
    for (std::int64_t j = 0; j < n; ++j) {
      const double v = double(x.at(0, j)), cdf = 0.5 * std::erfc(-v / std::sqrt(2.0));
      const double bell = v * std::exp(-v * v / 2) / std::sqrt(2 * M_PI);
      const double each = kEps * (8 + v * v);  // roundings of the formula and of x^2 / 2
      ASSERT_NEAR(double(y.at(0, j)), v * cdf, each * std::abs(v * cdf) + 1e-36) << v;
      ASSERT_NEAR(double(dx.at(0, j)), cdf + bell, each * (std::abs(bell) + cdf) + 1e-36) << v;
    }
  });
}

TEST(ActivationKernels, SpecialValuesAreWhatTheFormulaGives) {
  for_each_target([] {
    Guarded<float> x(1, 7), y(1, 7), dy(1, 7), dx(1, 7);
    const float values[] = {0, 40, -40, INFINITY, -INFINITY, NAN, -0.0f};
    x.fill([&](std::int64_t, std::int64_t j) { return double(values[j]); });
    dy.fill([](std::int64_t, std::int64_t) { return 1.0; });
    gelu_forward<float>(x.view(), 1, y.view());
    EXPECT_EQ(y.at(0, 0), 0);
    EXPECT_EQ(y.at(0, 1), 40);
    EXPECT_EQ(y.at(0, 2), 0);
    EXPECT_EQ(y.at(0, 3), INFINITY);
    EXPECT_TRUE(std::isnan(y.at(0, 4)));  // -inf * 0
    EXPECT_TRUE(std::isnan(y.at(0, 5)));
    gelu_backward<float>(dy.view(), x.view(), 1, {dx.view(), true});
    EXPECT_NEAR(dx.at(0, 0), 0.5, 1e-7);
    EXPECT_EQ(dx.at(0, 1), 1);
    EXPECT_EQ(dx.at(0, 2), 0);
    for (const std::int64_t j : {3, 4, 5}) EXPECT_TRUE(std::isnan(dx.at(0, j)));
    relu_forward<float>(x.view(), 2, y.view());
    EXPECT_EQ(y.at(0, 1), 80);
    EXPECT_EQ(y.at(0, 2), 0);
    EXPECT_EQ(y.at(0, 3), INFINITY);
    EXPECT_EQ(y.at(0, 4), 0);
    EXPECT_TRUE(std::isnan(y.at(0, 5)));
    relu_backward<float>(dy.view(), x.view(), 2, {dx.view(), true});
    const float slopes[] = {0, 2, 0, 2, 0};
    for (std::int64_t j = 0; j < 5; ++j) EXPECT_EQ(dx.at(0, j), slopes[j]);
    EXPECT_TRUE(std::isnan(dx.at(0, 5)));
    dy.at(0, 2) = NAN;  // a NaN from above is not lost where the slope is 0
    relu_backward<float>(dy.view(), x.view(), 2, {dx.view(), true});
    EXPECT_TRUE(std::isnan(dx.at(0, 2)));
  });
}

TEST(ActivationKernels, AnyCutGivesTheSameBits) {
  for_each_target([] {
    std::mt19937_64 rng(2);
    Guarded<float> x(9, 37), y(9, 37), strided(9, 37, 5, 3), out(9, 37, 2);
    x.randomise(rng, 2);
    strided.copy(x);
    for (const bool gelu : {true, false}) {
      forward<float>(gelu, false, x.view(), 1, y.view());
      for (std::int64_t i = 0; i < 9; i += 2) {
        const std::int64_t rows = std::min<std::int64_t>(2, 9 - i);
        forward<float>(gelu, false, strided.view().slice(i, rows), 1, out.view().slice(i, rows));
      }
      EXPECT_TRUE(same_bits(y.view(), out.view()));
      forward<float>(gelu, false, strided.view(), 1, strided.view());  // in place
      EXPECT_TRUE(same_bits(y.view(), strided.view()));
      strided.copy(x);
    }
  });
}

}  // namespace
}  // namespace plumb
