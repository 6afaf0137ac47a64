#include <gtest/gtest.h>

#include "tests/optim/reference.h"
#include "tests/optim/rig.h"

namespace plumb {
namespace {

// Four steps of torch.optim.SGD with p *= 1 - lr decay before each.
template <class R>
void four_steps(double momentum, const std::vector<double>& want, double tolerance) {
  test::OptimRig<R> rig("sgd", test::layout_of({{"w", Role::q, {{'C', 2}, {'C', 3}}}}),
                        {.momentum = momentum, .weight_decay = 0.5, .grad_clip = 0});
  for (std::uint64_t step = 0; step < 4; ++step) {
    rig.fill(rig.grad("w"), 100 + step);
    rig.optimizer->update(rig.store, rig.grads, 1, {0.1, 1}, rig.pool);
  }
  const auto got = rig.values("w");
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], tolerance) << i;
}

TEST(Sgd, IsPyTorchsInDouble) { four_steps<double>(0.9, test::sgd_momentum, 1e-15); }
TEST(Sgd, IsPyTorchsInFloat) { four_steps<float>(0.9, test::sgd_momentum, 1e-6); }
TEST(Sgd, WithoutMomentumItKeepsNothing) {
  four_steps<double>(0, test::sgd_plain, 1e-15);
  const ParamLayout layout = test::mixed_layout();
  test::OptimRig<float> rig("sgd", layout, {.momentum = 0});
  EXPECT_EQ(rig.optimizer->bytes(), 0u);
  for (const ParamInfo& p : layout.params) EXPECT_TRUE(rig.optimizer->state(p).empty());
}

// The gradient that enters the buffer is the clipped one.
TEST(Sgd, ClipsWhatEntersTheBuffer) {
  test::OptimRig<double> rig("sgd", test::layout_of({{"w", Role::q, {{'C', 1}, {'C', 2}}}}),
                             {.momentum = 0.5, .weight_decay = 0, .grad_clip = 1});
  const auto start = rig.values("w");
  rig.grads[0] = 3, rig.grads[1] = 4;
  rig.optimizer->update(rig.store, rig.grads, 5, {1, 1}, rig.pool);
  EXPECT_NEAR(start[0] - rig.values("w")[0], 0.6, 1e-6);
  EXPECT_NEAR(start[1] - rig.values("w")[1], 0.8, 1e-6);
  EXPECT_NEAR(rig.optimizer->state(rig.layout.params[0])[0].view.data[0], 0.6, 1e-6);
}

}  // namespace
}  // namespace plumb
