#include <gtest/gtest.h>

#include <cmath>

#include "tests/optim/reference.h"
#include "tests/optim/rig.h"

namespace plumb {
namespace {

// Four steps of the authors' definition in PyTorch, times 0.2 sqrt(max(rows, cols)).
template <class R>
void four_steps(std::int64_t rows, std::int64_t cols, const std::vector<double>& want, double tolerance) {
  test::OptimRig<R> rig("muon", test::layout_of({{"w", Role::ffn_in, {{'F', rows}, {'C', cols}}}}),
                        {.momentum = 0.95, .weight_decay = 0.5, .grad_clip = 0});
  rig.fill(rig.store.param("w"), 2);
  for (std::uint64_t step = 0; step < 4; ++step) {
    rig.fill(rig.grad("w"), 200 + step);
    rig.optimizer->update(rig.store, rig.grads, 1, {0.1, 1}, rig.pool);
  }
  const auto got = rig.values("w");
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], tolerance) << i;
}

TEST(Muon, AWideMatrixIsTheAuthorsInDouble) { four_steps<double>(3, 5, test::muon_wide, 1e-12); }
TEST(Muon, ATallMatrixIsTheAuthorsInDouble) { four_steps<double>(5, 3, test::muon_tall, 1e-12); }
TEST(Muon, IsTheAuthorsInFloat) {
  four_steps<float>(3, 5, test::muon_wide, 2e-6);
  four_steps<float>(5, 3, test::muon_tall, 2e-6);
}

// Newton–Schulz leaves singular values between 0.68 and 1.13, so that the update's root mean square is about
// 0.2 lr for any shape, and whatever the gradient's size.
TEST(Muon, AnUpdateIsAsLargeForAnyShapeAndGradient) {
  for (const auto& [rows, cols] : {std::pair{8, 64}, {64, 8}, {32, 32}, {1, 16}, {16, 1}})
    for (const double scale : {1e-3, 1.0, 1e3}) {
      test::OptimRig<float> rig("muon", test::layout_of({{"w", Role::v, {{'F', rows}, {'C', cols}}}}),
                                {.weight_decay = 0, .grad_clip = 0});
      const auto before = rig.values("w");
      rig.step(1, {0.1, 1}, scale);
      const auto after = rig.values("w");
      double sum = 0;
      for (std::size_t i = 0; i < before.size(); ++i) sum += (after[i] - before[i]) * (after[i] - before[i]);
      const double rms = std::sqrt(sum / static_cast<double>(before.size()));
      EXPECT_GT(rms, 0.1 * 0.2 * 0.6) << rows << " x " << cols << ", gradients of " << scale;
      EXPECT_LT(rms, 0.1 * 0.2 * 1.2) << rows << " x " << cols << ", gradients of " << scale;
    }
}

TEST(Muon, AZeroGradientMovesNothing) {
  test::OptimRig<float> rig("muon", test::mixed_layout(), {.weight_decay = 0});
  const auto before = rig.values("q");
  rig.step(1, {0.1, 1}, 0);
  EXPECT_EQ(rig.values("q"), before);
}

// Whatever is no hidden matrix is updated as by AdamW, and keeps AdamW's state.
TEST(Muon, LeavesEmbeddingsReadoutAndVectorsToAdamW) {
  const ParamLayout layout = test::mixed_layout();
  test::OptimRig<float> muon("muon", layout, {}), adamw("adamw", layout, {});
  for (int step = 1; step <= 3; ++step) {
    muon.step(step, {0.01, 1});
    adamw.step(step, {0.01, 1});
  }
  for (const char* name : {"embed", "bias", "gain", "readout"}) {
    EXPECT_EQ(muon.values(name), adamw.values(name)) << name;
    EXPECT_EQ(muon.optimizer->state(layout.find(name)).size(), 2u) << name;
  }
  for (const char* name : {"q", "in", "out"}) {
    EXPECT_NE(muon.values(name), adamw.values(name)) << name;
    const auto state = muon.optimizer->state(layout.find(name));
    ASSERT_EQ(state.size(), 1u) << name;
    EXPECT_EQ(state[0].kind, "momentum");
  }
}

}  // namespace
}  // namespace plumb
