#include <gtest/gtest.h>

#include "plumb/optim/adamw.h"
#include "plumb/optim/schedule.h"
#include "tests/support/reference.h"

namespace plumb {
namespace {

using test::reference;

TEST(Schedule, WarmupCosineIsTheReferences) {
  const test::Entry& e = reference("warmup_cosine");
  const ScheduleSpec s{.kind = "cosine",
                       .lr = e.param("max"),
                       .min_lr = e.param("min"),
                       .warmup = static_cast<std::int64_t>(e.param("warmup")),
                       .steps = static_cast<std::int64_t>(e.param("total"))};
  for (const auto& [name, want] : e.outputs) {
    const double got = learning_rate(s, std::stoll(name.substr(1)));
    EXPECT_TRUE(test::matches<double>(got, e, want, test::What::value)) << name;
  }
}

TEST(Schedule, LinearAndConstant) {
  const ScheduleSpec linear{.kind = "linear", .lr = 1, .min_lr = 0, .warmup = 10, .steps = 110};
  EXPECT_DOUBLE_EQ(learning_rate(linear, 4), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(linear, 10), 1);
  EXPECT_DOUBLE_EQ(learning_rate(linear, 60), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(linear, 110), 0);
  const ScheduleSpec constant{.kind = "constant", .lr = 2, .warmup = 0, .steps = 5};
  EXPECT_DOUBLE_EQ(learning_rate(constant, 0), 2);
  EXPECT_DOUBLE_EQ(learning_rate(constant, 99), 2);
}

// Three clipped steps of PyTorch's AdamW, a two-dim parameter with decay and a one-dim one without.
template <class R>
void three_steps() {
  const test::Entry& e = reference("adamw_clip");
  ParamLayout layout;
  layout.params = {{{.name = "decay", .role = Role::q, .shape = {{'C', 3}, {'F', 2}}}, {}, 0}, {{.name = "nodecay", .shape = {{'C', 2}}}, {}, 16}};
  layout.n_param_elements = 32;
  ParamStore<R> store(layout, 0);
  auto put = [&](std::span<R> to, const std::string& decay, const std::string& nodecay) {
    std::ranges::copy(test::Matrix<R>(e.in(decay)).data, to.begin());
    std::ranges::copy(test::Matrix<R>(e.in(nodecay)).data, to.begin() + 16);
  };
  put(store.values(), "p_decay", "p_nodecay");
  AdamW<R> optimizer(layout, {.beta1 = 0.9, .beta2 = 0.95, .eps = e.param("eps"),
                              .weight_decay = e.param("weight_decay"), .grad_clip = e.param("max_norm")});
  ThreadPool pool(1);
  std::vector<R> grads(32);
  for (const std::string i : {"0", "1", "2"}) {
    put(grads, "g_decay" + i, "g_nodecay" + i);
    optimizer.update(store, grads, e.out("total_norm" + i).scalar(), e.param("lr"), pool);
    auto part = [&](std::size_t at, std::size_t n) {
      return std::vector<double>(store.values().begin() + static_cast<std::ptrdiff_t>(at),
                                 store.values().begin() + static_cast<std::ptrdiff_t>(at + n));
    };
    const auto tol = test::tolerance<R>(e, test::What::gradient);
    EXPECT_TRUE(test::close(part(0, 6), e.out("p_decay_after" + i), tol));
    EXPECT_TRUE(test::close(part(16, 2), e.out("p_nodecay_after" + i), tol));
  }
}
TEST(AdamW, IsTheReferencesInDouble) { three_steps<double>(); }
TEST(AdamW, IsTheReferencesInFloat) { three_steps<float>(); }

TEST(AdamW, ClipScale) {
  EXPECT_DOUBLE_EQ(clip_scale(10, 0), 1);
  EXPECT_DOUBLE_EQ(clip_scale(0.5, 1), 1);
  EXPECT_NEAR(clip_scale(4, 1), 0.25, 1e-6);
}

}  // namespace
}  // namespace plumb
