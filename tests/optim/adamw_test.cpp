#include <gtest/gtest.h>

#include "tests/optim/rig.h"
#include "tests/support/reference.h"

namespace plumb {
namespace {

using test::reference;

// Three clipped steps of PyTorch's AdamW, a two-dim parameter with decay and a one-dim one without.
template <class R>
void three_steps(bool independent) {
  const test::Entry& e = reference("adamw_clip");
  const ParamLayout layout =
      test::layout_of({{"decay", Role::q, {{'C', 3}, {'F', 2}}}, {"nodecay", Role::scalar, {{'C', 2}}}});
  // Decay that does not know the learning rate is the same where the share of the schedule is that rate.
  const Rate rate{e.param("lr"), independent ? e.param("lr") : 0.123};
  test::OptimRig<R> rig("adamw", layout,
                        {.beta1 = 0.9,
                         .beta2 = 0.95,
                         .eps = e.param("eps"),
                         .weight_decay = e.param("weight_decay"),
                         .independent_decay = independent,
                         .grad_clip = e.param("max_norm")});
  auto put = [&](View<R> to, const std::string& name) {
    std::ranges::copy(test::Matrix<R>(e.in(name)).data, to.data);
  };
  for (const std::string p : {"decay", "nodecay"}) put(rig.store.param(p), "p_" + p);
  for (const std::string i : {"0", "1", "2"}) {
    for (const std::string p : {"decay", "nodecay"}) put(rig.grad(p), "g_" + p + i);
    rig.optimizer->update(rig.store, rig.grads, e.out("total_norm" + i).scalar(), rate, rig.pool);
    const auto tol = test::tolerance<R>(e, test::What::gradient);
    for (const std::string p : {"decay", "nodecay"})
      EXPECT_TRUE(test::close(rig.values(p), e.out("p_" + p + "_after" + i), tol));
  }
}

TEST(AdamW, IsTheReferencesInDouble) { three_steps<double>(false); }
TEST(AdamW, IsTheReferencesInFloat) { three_steps<float>(false); }
TEST(AdamW, IsTheReferencesWithIndependentDecay) { three_steps<double>(true); }

TEST(AdamW, KeepsTwoMomentsOfEveryParameter) {
  const ParamLayout layout = test::mixed_layout();
  test::OptimRig<float> rig("adamw", layout, {});
  rig.step(1, {0.01, 1});
  for (const ParamInfo& p : layout.params) {
    const auto state = rig.optimizer->state(p);
    ASSERT_EQ(state.size(), 2u);
    EXPECT_EQ(state[0].kind, "m");
    EXPECT_EQ(state[1].kind, "v");
    for (std::int64_t i = 0; i < p.size(); ++i) EXPECT_GT(state[1].view.data[i], 0);
  }
}

}  // namespace
}  // namespace plumb
