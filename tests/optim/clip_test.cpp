// Clipping: by units (agc), by the global norm, and in which order.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/optim/rig.h"
#include "tests/support/reference.h"

namespace plumb {
namespace {

TEST(Clipping, ClipScale) {
  EXPECT_DOUBLE_EQ(clip_scale(10, 0), 1);
  EXPECT_DOUBLE_EQ(clip_scale(0.5, 1), 1);
  EXPECT_NEAR(clip_scale(4, 1), 0.25, 1e-6);
}

// Without momentum, decay and global clip an SGD step of rate 1 is the clipped gradient.
template <class R>
void rows_of_the_reference() {
  const test::Entry& e = test::reference("agc");
  test::OptimRig<R> rig(
      "sgd",
      test::layout_of({{"w", Role::q, {{'C', 3}, {'C', 4}}}, {"head", Role::readout, {{'V', 1}, {'C', 4}}}}),
      {.momentum = 0, .weight_decay = 0, .grad_clip = 0, .agc = e.param("lam")});
  std::ranges::copy(test::Matrix<R>(e.in("W")).data, rig.store.param("w").data);
  std::ranges::copy(test::Matrix<R>(e.in("G")).data, rig.grad("w").data);
  rig.fill(rig.grad("head"), 3, 100);
  const test::Matrix<R> head = [&] {
    test::Matrix<R> m(1, 4);
    std::copy_n(rig.grad("head").data, 4, m.data.begin());
    return m;
  }();
  const Clipped c = rig.optimizer->update(rig.store, rig.grads, 1, {1, 1}, rig.pool);
  test::Matrix<R> got(3, 4);
  std::copy_n(rig.grad("w").data, 12, got.data.begin());
  EXPECT_TRUE(test::matches(got, e, e.out("Gclip"), test::What::value));
  EXPECT_EQ(c.units, 3);
  EXPECT_EQ(c.shortened, 3);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(rig.grad("head").data[i], head.data[static_cast<std::size_t>(i)]);
}
TEST(AdaptiveClipping, IsTheReferencesInDouble) { rows_of_the_reference<double>(); }
TEST(AdaptiveClipping, IsTheReferencesInFloat) { rows_of_the_reference<float>(); }

double norm(View<double> v) {
  double sum = 0;
  for (std::int64_t i = 0; i < v.size(); ++i) sum += v.data[i] * v.data[i];
  return std::sqrt(sum);
}

// A vector and a gain of two dims are one unit each, of lambda times their norm; an embedding has a unit a
// token; a tied embedding is the classifier and is left alone.
TEST(AdaptiveClipping, UnitsAreRowsAndWholeVectors) {
  const auto params = [](bool tied) {
    std::vector<test::NamedParam> p{{"embed", Role::token_embed, {{'V', 5}, {'C', 3}}},
                                    {"bias", Role::bias, {{'F', 7}}},
                                    {"gain", Role::residual_gain, {{'N', 2}, {'C', 3}}}};
    if (!tied) p.push_back({"head", Role::readout, {{'V', 5}, {'C', 3}}});
    return test::layout_of(p);
  };
  for (const bool tied : {false, true}) {
    test::OptimRig<double> rig("sgd", params(tied), {.grad_clip = 0, .agc = 0.1});
    const double bias = norm(rig.store.param("bias")), gain = norm(rig.store.param("gain"));
    const double row = norm(rig.store.param("embed").slice(2, 1));
    const Clipped c = rig.step(1, {0, 1}, 100);
    EXPECT_EQ(c.units, tied ? 2 : 7);
    EXPECT_EQ(c.shortened, c.units);
    EXPECT_NEAR(norm(rig.grad("bias")), 0.1 * bias, 1e-12);
    EXPECT_NEAR(norm(rig.grad("gain")), 0.1 * gain, 1e-12);
    if (tied)
      EXPECT_GT(norm(rig.grad("embed")), 10);
    else
      EXPECT_NEAR(norm(rig.grad("embed").slice(2, 1)), 0.1 * row, 1e-12);
  }
}

// The global norm is taken of what adaptive clipping left: short enough, it clips no more.
TEST(AdaptiveClipping, ComesBeforeTheGlobalNorm) {
  const ParamLayout layout =
      test::layout_of({{"w", Role::q, {{'C', 2}, {'C', 2}}}, {"head", Role::readout, {{'V', 1}, {'C', 1}}}});
  test::OptimRig<double> rig("sgd", layout, {.momentum = 0, .weight_decay = 0, .grad_clip = 1, .agc = 0.5});
  for (double& w : rig.store.values()) w = 0;
  auto w = rig.store.param("w");
  w.data[0] = 3, w.data[1] = 4;  // row 0: at most 2.5; row 1: at most 0.5 * 1e-3
  auto g = rig.grad("w");
  g.data[0] = 30, g.data[1] = 40, g.data[2] = 8, g.data[3] = 6;
  rig.grad("head").data[0] = 0;
  rig.optimizer->update(rig.store, rig.grads, rig.grad_norm(), {1, 1}, rig.pool);
  // After units: (1.5, 2), (4e-4, 3e-4); its norm, 2.5 but for 5e-8, is clipped to 1.
  EXPECT_NEAR(w.data[0], 3 - 0.6, 1e-6);
  EXPECT_NEAR(w.data[1], 4 - 0.8, 1e-6);
  EXPECT_NEAR(w.data[2], -4e-4 / 2.5, 1e-9);
  EXPECT_NEAR(w.data[3], -3e-4 / 2.5, 1e-9);
}

TEST(AdaptiveClipping, ShortGradientsAreLeftToTheBit) {
  const ParamLayout layout = test::mixed_layout();
  test::OptimRig<float> with("adamw", layout, {.agc = 10}), without("adamw", layout, {});
  for (int step = 1; step <= 2; ++step) {
    EXPECT_EQ(with.step(step, {0.01, 1}, 1e-3).shortened, 0);
    EXPECT_EQ(without.step(step, {0.01, 1}, 1e-3).units, 0);
  }
  EXPECT_EQ(with.store.hash(), without.store.hash());
}

}  // namespace
}  // namespace plumb
