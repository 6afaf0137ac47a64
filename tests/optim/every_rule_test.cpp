// What must hold for every optimiser, whatever its rule. The table is walked, so a new file is found by
// itself. Each check returns a sentence, and a rule that is broken on purpose shows that it can fail.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/optim/rig.h"
#include "tests/support/allocations.h"

namespace plumb {
namespace {

using test::mixed_layout;
using test::OptimRig;

const OptimSpec usual{.weight_decay = 0.1, .grad_clip = 3, .agc = 0.5};

std::string run(const OptimEntry& e, const OptimSpec& s, int threads) {
  OptimRig<float> rig(e, mixed_layout(), s, threads);
  for (int step = 1; step <= 4; ++step) rig.step(step, {0.01, 0.5});
  return rig.store.hash();
}

std::string check_threads(const OptimEntry& e) {
  const std::string one = run(e, usual, 1);
  for (const int threads : {2, 4})
    if (run(e, usual, threads) != one) return fmt::format("{} threads give other bits", threads);
  return {};
}

// With what `state` shows and the number of steps, another object goes on to the same bits.
std::string check_state(const OptimEntry& e) {
  OptimRig<float> whole(e, mixed_layout(), usual, 1), second(e, mixed_layout(), usual, 1);
  for (int step = 1; step <= 2; ++step) whole.step(step, {0.01, 1});
  std::ranges::copy(whole.store.values(), second.store.values().begin());
  second.optimizer->steps(whole.optimizer->steps());
  for (const ParamInfo& p : whole.layout.params) {
    const auto from = whole.optimizer->state(p), to = second.optimizer->state(p);
    for (std::size_t i = 0; i < from.size(); ++i)
      std::copy_n(from[i].view.data, from[i].view.size(), to[i].view.data);
  }
  for (int step = 3; step <= 5; ++step) {
    whole.step(step, {0.01, 1});
    second.step(step, {0.01, 1});
  }
  return whole.store.hash() == second.store.hash() ? "" : "what is saved is not all of the state";
}

// A role whose rate is 0 does not move, by decay neither; half the rate is half the way at the first step.
std::string check_roles(const OptimEntry& e) {
  for (const bool independent : {false, true})
    for (const Role role : {Role::q, Role::ffn_in, Role::token_embed, Role::bias, Role::readout}) {
      OptimSpec frozen{.independent_decay = independent, .grad_clip = 0}, half = frozen, full = frozen;
      frozen.lr_scale[role] = 0;
      half.lr_scale[role] = 0.5;
      half.weight_decay = full.weight_decay = 0;
      OptimRig<double> f(e, mixed_layout(), frozen), h(e, mixed_layout(), half), g(e, mixed_layout(), full),
          start(e, mixed_layout(), full);
      for (auto* rig : {&f, &h, &g}) rig->step(1, {0.01, 1});
      for (const ParamInfo& p : f.layout.params) {
        const std::string& name = p.spec.name;
        const double from = start.values(name)[0];
        if ((f.values(name)[0] == from) != (p.spec.role == role))
          return fmt::format("with {} frozen {} moved by {}", role_names[static_cast<std::size_t>(role)],
                             name, f.values(name)[0] - from);
        const double want = (p.spec.role == role ? 0.5 : 1) * (g.values(name)[0] - from);
        if (std::abs(h.values(name)[0] - from - want) > 1e-12)
          return fmt::format("{} moved by {} instead of {}", name, h.values(name)[0] - from, want);
      }
    }
  return {};
}

// Without gradients a matrix shrinks by 1 - lr wd, or by 1 - schedule wd, each step; vectors do not.
std::string check_decay(const OptimEntry& e) {
  for (const bool independent : {false, true}) {
    OptimRig<double> rig(e, mixed_layout(), {.weight_decay = 0.3, .independent_decay = independent});
    OptimRig<double> start(e, mixed_layout(), {});
    for (int step = 1; step <= 3; ++step) rig.step(step, {0.01, 0.25}, 0);
    const double factor = std::pow(1 - (independent ? 0.25 : 0.01) * 0.3, 3);
    for (const ParamInfo& p : rig.layout.params) {
      const double want = start.values(p.spec.name)[1] * (p.spec.shape.dims.size() > 1 ? factor : 1);
      if (std::abs(rig.values(p.spec.name)[1] - want) > 1e-13)
        return fmt::format("{} is {} instead of {}", p.spec.name, rig.values(p.spec.name)[1], want);
    }
  }
  return {};
}

// Twice the gradient with half the clip coefficient is the same gradient; what is accumulated is clipped
// once.
std::string check_clip(const OptimEntry& e) {
  OptimRig<double> a(e, mixed_layout(), {.grad_clip = 1}), b(e, mixed_layout(), {.grad_clip = 1});
  for (int step = 1; step <= 3; ++step) {
    a.step(step, {0.01, 1}, 4);
    b.step(step, {0.01, 1}, 8);
  }
  for (const ParamInfo& p : a.layout.params)
    if (std::abs(a.values(p.spec.name)[0] - b.values(p.spec.name)[0]) > 1e-6)
      return fmt::format("the size of a clipped gradient moves {}", p.spec.name);
  return {};
}

// Rounding of the update, of about lr, and of the parameter, below 1, each of four steps; Newton–Schulz
// multiplies that of a direction by 3.4445 five times where it is small.
std::string check_float(const OptimEntry& e) {
  OptimRig<double> wide(e, mixed_layout(), usual);
  OptimRig<float> narrow(e, mixed_layout(), usual);
  for (int step = 1; step <= 4; ++step) {
    wide.step(step, {0.01, 1});
    narrow.step(step, {0.01, 1});
  }
  for (const ParamInfo& p : wide.layout.params) {
    const auto w = wide.values(p.spec.name), n = narrow.values(p.spec.name);
    for (std::size_t i = 0; i < w.size(); ++i)
      if (!(std::abs(w[i] - n[i]) <= 4 * (0x1p-24 + 0.01 * 500 * 4 * 0x1p-24)))
        return fmt::format("{}[{}] is {:.9g} in double, {:.9g} in float", p.spec.name, i, w[i], n[i]);
  }
  return {};
}

std::string check_nan(const OptimEntry& e) {
  OptimRig<float> rig(e, mixed_layout(), {});
  for (const ParamInfo& p : rig.layout.params)
    rig.grad(p).data[p.size() - 1] = std::numeric_limits<float>::quiet_NaN();
  rig.optimizer->update(rig.store, rig.grads, 1, {0.01, 1}, rig.pool);
  for (const ParamInfo& p : rig.layout.params)
    if (std::isfinite(rig.store.view(p).data[p.size() - 1])) return "a NaN does not reach " + p.spec.name;
  return {};
}

class EveryRule : public testing::TestWithParam<OptimEntry> {};

TEST_P(EveryRule, HasTheSameBitsOnAnyNumberOfThreads) { EXPECT_EQ(check_threads(GetParam()), ""); }
TEST_P(EveryRule, ShowsAllOfItsState) { EXPECT_EQ(check_state(GetParam()), ""); }
TEST_P(EveryRule, HonoursLearningRatesByRole) { EXPECT_EQ(check_roles(GetParam()), ""); }
TEST_P(EveryRule, DecaysMatricesAlone) { EXPECT_EQ(check_decay(GetParam()), ""); }
TEST_P(EveryRule, SeesClippedGradients) { EXPECT_EQ(check_clip(GetParam()), ""); }
TEST_P(EveryRule, IsInFloatWhatItIsInDouble) { EXPECT_EQ(check_float(GetParam()), ""); }
TEST_P(EveryRule, HidesNoNaN) { EXPECT_EQ(check_nan(GetParam()), ""); }
TEST_P(EveryRule, AllocatesNothingInAStep) {
  OptimRig<float> rig(GetParam(), mixed_layout(), usual, 2);
  rig.step(1, {0.01, 1});
  const double norm = rig.grad_norm();
  EXPECT_EQ(test::allocations_of_ours([&] {
              rig.optimizer->update(rig.store, rig.grads, norm, {0.01, 1}, rig.pool);
            }),
            0);
}
TEST_P(EveryRule, SaysWhatItIs) {
  EXPECT_FALSE(GetParam().formula.empty());
  EXPECT_FALSE(GetParam().fields.empty());
  EXPECT_TRUE(GetParam().batch_power == 0.5 || GetParam().batch_power == 1);
}

INSTANTIATE_TEST_SUITE_P(All, EveryRule, testing::ValuesIn(optim_table()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Optimizers, ABiggerBatchWantsItsLearningRate) {
  const auto table = optim_table();
  EXPECT_DOUBLE_EQ(choose_optimizer(table, "adamw").scaled_lr(0.003, 4), 0.006);
  EXPECT_DOUBLE_EQ(choose_optimizer(table, "muon").scaled_lr(0.003, 4), 0.006);
  EXPECT_DOUBLE_EQ(choose_optimizer(table, "sgd").scaled_lr(0.1, 4), 0.4);
}

// A rule that breaks every promise: hidden state, bits that depend on the threads, decay of vectors and of
// what is frozen, the unclipped gradient, and no NaN.
template <class R>
class Broken final : public Optimizer<R> {
 public:
  Broken(const ParamLayout& layout, const OptimSpec& s, int threads)
      : Optimizer<R>(layout, s), n_(layout.n_param_elements), decay_(s.weight_decay), threads_(threads) {}
  std::vector<OptimState<R>> state(const ParamInfo&) const override { return {}; }
  std::size_t bytes() const override { return 0; }

 private:
  void apply(const Update<R>& u) override {
    sum_ += 1;
    for (std::int64_t i = 0; i < n_; ++i) {
      const double g = std::isnan(u.grads[i]) ? 0 : static_cast<double>(u.grads[i]);
      const double p = static_cast<double>(u.values[i]) * (1 - decay_);
      u.values[i] =
          static_cast<R>(p - u.rate.lr * (g + 0.1 * sum_ + 0.01 * threads_ + (sizeof(R) == 4 ? 0.1 : 0)));
    }
  }
  std::int64_t n_;
  double decay_;
  int threads_;
  double sum_ = 0;
};

TEST(Optimizers, EachCheckFailsABrokenRule) {
  const OptimEntry broken =
      optim_entry<Broken>({.name = "broken", .formula = "", .paper = "", .pitfalls = ""}, 1);
  for (const auto check :
       {check_threads, check_state, check_roles, check_decay, check_clip, check_float, check_nan})
    EXPECT_NE(check(broken), "");
}

}  // namespace
}  // namespace plumb
