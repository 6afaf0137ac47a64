#include "plumb/kernel/activation.h"
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

constexpr Act every_act[] = {Act::gelu, Act::gelu_tanh, Act::relu, Act::leaky_relu, Act::silu, Act::tanh};
static_assert(std::size(every_act) == std::size(act_names));

/// Inputs and gradients of one activation, gated or not.
template <class R>
struct Case {
  Activation a;
  bool gated;
  Guarded<R> x, up, y, dy, dx, dup;
  bool overwrite = true;

  Case(Act act, bool with_gate, std::int64_t rows, std::int64_t n, std::int64_t gap = 0,
       std::int64_t shift = 0)
      : a{act, 1.25, 0.1},
        gated(with_gate),
        x(rows, n, gap, shift),
        up(rows, n, gap),
        y(rows, n, gap),
        dy(rows, n, 1),
        dx(rows, n, gap),
        dup(rows, n, gap) {}
  void randomise(unsigned seed, double scale) {
    std::mt19937_64 rng(seed);
    x.randomise(rng, scale), up.randomise(rng, 1), dy.randomise(rng, 1), dx.randomise(rng, 1),
        dup.randomise(rng, 1);
  }
  template <class Q>
  void copy(const Case<Q>& c) {
    x.copy(c.x), up.copy(c.up), dy.copy(c.dy), dx.copy(c.dx), dup.copy(c.dup), overwrite = c.overwrite;
  }
  void forward(bool plain) const {
    if (gated)
      (plain ? plain::gated_forward<R> : gated_forward<R>)(a, x.view(), up.view(), y.view());
    else
      (plain ? plain::activation_forward<R> : activation_forward<R>)(a, x.view(), y.view());
  }
  void run(bool plain) const {
    forward(plain);
    if (gated)
      (plain ? plain::gated_backward<R> : gated_backward<R>)(a, dy.view(), x.view(), up.view(),
                                                             {dx.view(), overwrite}, {dup.view(), overwrite});
    else
      (plain ? plain::activation_backward<R> : activation_backward<R>)(a, dy.view(), x.view(),
                                                                       {dx.view(), overwrite});
  }
};

TEST(ActivationKernels, PlainBackwardIsTheDerivative) {
  for (const Act act : every_act)
    for (const bool gated : {false, true})
      for (const double scale : {0.1, 1.0, 10.0}) {
        SCOPED_TRACE(act_name(act));
        Case<double> c(act, gated, 4, 9, 1);
        c.randomise(1, scale);
        c.run(true);
        const auto loss = [&] {
          c.forward(true);
          return plain::dot<double>(c.y.view(), c.dy.view());
        };
        const bool kinked = act == Act::relu || act == Act::leaky_relu;
        expect_gradient(c.x, c.dx, kinked ? 1e-5 * scale : 1e-3, loss, "x");
        if (gated) expect_gradient(c.up, c.dup, 1e-3, loss, "up");
      }
}

TEST(ActivationKernels, FastIsPlain) {
  for_each_target([] {
    for (const Act act : every_act)
      for (const bool gated : {false, true})
        for (const std::int64_t n : swept_lengths()) {
          Case<float> fast(act, gated, 3, n, n % 3, n % 2);
          Case<double> plain(act, gated, 3, n);
          fast.randomise(unsigned(n), n % 2 ? 1 : 6);
          fast.overwrite = n % 2 == 0;
          plain.copy(fast);
          fast.run(false), plain.run(true);
          SCOPED_TRACE(testing::Message() << act_name(act) << " gated " << gated << " n " << n);
          const bool exact = act == Act::gelu || act == Act::relu;  // as before the other kinds came
          const auto up = [&](std::int64_t i, std::int64_t j) {
            return gated ? std::abs(plain.up.at(i, j)) : 1;
          };
          EXPECT_TRUE(near(fast.y, plain.y, [&](std::int64_t i, std::int64_t j) {
            return 1.25 * (exact ? 2e-7 : 3e-7) * std::max(1.0, std::abs(plain.x.at(i, j))) * up(i, j) +
                   (gated ? kEps * std::abs(plain.y.at(i, j)) : 0);
          }));
          EXPECT_TRUE(near(fast.dx, plain.dx, [&](std::int64_t i, std::int64_t j) {
            // in x (1 - s) the error of s counts |x| times
            const double x = std::max(1.0, std::abs(plain.x.at(i, j)));
            return 1.25 * (exact ? 5e-7 : 6e-7 * x) * std::abs(plain.dy.at(i, j)) * up(i, j) +
                   2 * kEps * (std::abs(plain.dx.at(i, j)) + 1);
          }));
          if (gated) {
            EXPECT_TRUE(near(fast.dup, plain.dup, [&](std::int64_t i, std::int64_t j) {
              return 1.25 * 3e-7 * std::max(1.0, std::abs(plain.x.at(i, j))) * std::abs(plain.dy.at(i, j)) +
                     2 * kEps * (std::abs(plain.dup.at(i, j)) + 1);
            }));
          }
        }
  });
}

/// Formulas that need no special function beyond std's, away from where the two forms of gelu agree.
TEST(ActivationKernels, ValuesByHand) {
  const double x = 1.5;
  const auto value = [&](Act act, double at) {
    Guarded<double> in(1, 1), out(1, 1);
    in.at(0, 0) = at;
    activation_forward<double>({.act = act, .slope = 0.1}, in.view(), out.view());
    return out.at(0, 0);
  };
  EXPECT_NEAR(value(Act::silu, x), x / (1 + std::exp(-x)), 1e-15);
  EXPECT_NEAR(value(Act::silu, -1.2784645), -0.2784645, 1e-7);  // its least value, where x = -1 - silu
  EXPECT_NEAR(value(Act::gelu_tanh, x),
              0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))), 1e-15);
  EXPECT_EQ(value(Act::leaky_relu, -2), -0.2);
  EXPECT_EQ(value(Act::leaky_relu, 2), 2);
  EXPECT_NEAR(value(Act::tanh, x), std::tanh(x), 1e-15);
}

/// A sweep of one row over [-20, 20] and the float specials: relatively exact in the tail, until it
/// underflows.
TEST(ActivationKernels, GeluIsExactInItsTails) {
  for_each_target([] {
    constexpr std::int64_t n = 40001;
    Guarded<float> x(1, n), y(1, n), dx(1, n), ones(1, n);
    x.fill([](std::int64_t, std::int64_t j) { return double(float(-20 + double(j) * 1e-3)); });
    ones.fill([](std::int64_t, std::int64_t) { return 1.0; });
    activation_forward<float>({.act = Act::gelu}, x.view(), y.view());
    activation_backward<float>({.act = Act::gelu}, ones.view(), x.view(), {dx.view(), true});
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
    activation_forward<float>({.act = Act::gelu}, x.view(), y.view());
    EXPECT_EQ(y.at(0, 0), 0);
    EXPECT_EQ(y.at(0, 1), 40);
    EXPECT_EQ(y.at(0, 2), 0);
    EXPECT_EQ(y.at(0, 3), INFINITY);
    EXPECT_TRUE(std::isnan(y.at(0, 4)));  // -inf * 0
    EXPECT_TRUE(std::isnan(y.at(0, 5)));
    activation_backward<float>({.act = Act::gelu}, dy.view(), x.view(), {dx.view(), true});
    EXPECT_NEAR(dx.at(0, 0), 0.5, 1e-7);
    EXPECT_EQ(dx.at(0, 1), 1);
    EXPECT_EQ(dx.at(0, 2), 0);
    for (const std::int64_t j : {3, 4, 5}) EXPECT_TRUE(std::isnan(dx.at(0, j)));
    const Activation relu{.act = Act::relu, .gain = 2};
    activation_forward<float>(relu, x.view(), y.view());
    EXPECT_EQ(y.at(0, 1), 80);
    EXPECT_EQ(y.at(0, 2), 0);
    EXPECT_EQ(y.at(0, 3), INFINITY);
    EXPECT_EQ(y.at(0, 4), 0);
    EXPECT_TRUE(std::isnan(y.at(0, 5)));
    activation_backward<float>(relu, dy.view(), x.view(), {dx.view(), true});
    const float slopes[] = {0, 2, 0, 2, 0};
    for (std::int64_t j = 0; j < 5; ++j) EXPECT_EQ(dx.at(0, j), slopes[j]);
    EXPECT_TRUE(std::isnan(dx.at(0, 5)));
    dy.at(0, 2) = NAN;  // a NaN from above is not lost where the slope is 0
    activation_backward<float>(relu, dy.view(), x.view(), {dx.view(), true});
    EXPECT_TRUE(std::isnan(dx.at(0, 2)));
  });
}

/// Far out every kind is what its formula tends to, and a NaN in any input comes out.
TEST(ActivationKernels, FarOutAndNaN) {
  for_each_target([] {
    for (const Act act : every_act) {
      SCOPED_TRACE(act_name(act));
      Case<float> c(act, true, 1, 6);
      const float values[] = {200, -200, 1e20f, -1e20f, INFINITY, NAN};
      c.x.fill([&](std::int64_t, std::int64_t j) { return double(values[j]); });
      c.up.fill([](std::int64_t, std::int64_t) { return 1.0; });
      c.dy.fill([](std::int64_t, std::int64_t) { return 1.0; });
      c.a.gain = 1;
      c.run(false);
      const bool tanh = act == Act::tanh;
      const double below = act == Act::leaky_relu ? 0.1 : 0;
      EXPECT_EQ(c.y.at(0, 0), tanh ? 1 : 200);
      EXPECT_NEAR(c.y.at(0, 1), tanh ? -1 : -200 * below, 1e-5);
      EXPECT_EQ(c.y.at(0, 2), tanh ? 1 : 1e20f);
      EXPECT_EQ(c.dx.at(0, 0), tanh ? 0 : 1);
      EXPECT_EQ(c.dx.at(0, 2), tanh ? 0 : 1);
      EXPECT_NEAR(c.dx.at(0, 1), below, 1e-7);
      EXPECT_NEAR(c.dx.at(0, 3), below, 1e-7);
      EXPECT_EQ(c.y.at(0, 4), tanh ? 1 : INFINITY);
      EXPECT_TRUE(std::isnan(c.y.at(0, 5)) && std::isnan(c.dx.at(0, 5)) && std::isnan(c.dup.at(0, 5)));
      c.x.fill([](std::int64_t, std::int64_t) { return 0.5; });
      c.up.at(0, 1) = NAN;
      c.run(false);
      EXPECT_TRUE(std::isnan(c.y.at(0, 1)) && std::isnan(c.dx.at(0, 1)) && std::isfinite(c.dup.at(0, 1)));
    }
  });
}

TEST(ActivationKernels, AnyCutGivesTheSameBits) {
  for_each_target([] {
    for (const Act act : every_act) {
      SCOPED_TRACE(act_name(act));
      Case<float> whole(act, true, 9, 37), cut(act, true, 9, 37, 5, 3);
      whole.randomise(2, 2);
      cut.copy(whole);
      whole.run(false);
      for (std::int64_t i = 0; i < 9; i += 2) {
        const std::int64_t rows = std::min<std::int64_t>(2, 9 - i);
        const auto part = [&](const Guarded<float>& m) { return m.view().slice(i, rows); };
        gated_forward<float>(cut.a, part(cut.x), part(cut.up), part(cut.y));
        gated_backward<float>(cut.a, part(cut.dy), part(cut.x), part(cut.up), {part(cut.dx), true}, {});
        gated_backward<float>(cut.a, part(cut.dy), part(cut.x), part(cut.up), {}, {part(cut.dup), true});
      }
      EXPECT_TRUE(same_bits(whole.y.view(), cut.y.view()));
      EXPECT_TRUE(same_bits(whole.dx.view(), cut.dx.view()));
      EXPECT_TRUE(same_bits(whole.dup.view(), cut.dup.view()));
      activation_forward<float>(whole.a, whole.x.view(), whole.y.view());
      activation_forward<float>(cut.a, cut.x.view(), cut.x.view());  // in place
      EXPECT_TRUE(same_bits(whole.y.view(), cut.x.view()));
    }
  });
}

}  // namespace
}  // namespace plumb
