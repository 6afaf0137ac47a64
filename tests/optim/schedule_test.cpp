#include "plumb/optim/schedule.h"

#include <gtest/gtest.h>

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

// Constant to step 80, the last fifth linear to min_lr; a warm-up that ends later is followed by the decay at
// once.
TEST(Schedule, WarmupStableDecay) {
  const ScheduleSpec s{.kind = "wsd", .lr = 1, .min_lr = 0.2, .warmup = 10, .steps = 100};
  EXPECT_DOUBLE_EQ(learning_rate(s, 4), 0.5);
  for (const std::int64_t step : {9, 10, 50, 79, 80}) EXPECT_DOUBLE_EQ(learning_rate(s, step), 1) << step;
  EXPECT_DOUBLE_EQ(learning_rate(s, 81), 1 - 0.8 / 20);
  EXPECT_DOUBLE_EQ(learning_rate(s, 90), 0.6);
  EXPECT_DOUBLE_EQ(learning_rate(s, 99), 0.2 + 0.8 / 20);
  EXPECT_DOUBLE_EQ(learning_rate(s, 100), 0.2);
  ScheduleSpec late = s;
  late.warmup = 90;
  EXPECT_DOUBLE_EQ(learning_rate(late, 89), 1);
  EXPECT_DOUBLE_EQ(learning_rate(late, 95), 0.6);
  ScheduleSpec none = s;
  none.steps = 0, none.warmup = 0;
  EXPECT_DOUBLE_EQ(learning_rate(none, 0), 0.2);
}

TEST(Schedule, ShareIsTheRateOverItsPeak) {
  ScheduleSpec s{.kind = "cosine", .lr = 0.02, .min_lr = 0, .warmup = 10, .steps = 110};
  EXPECT_DOUBLE_EQ(schedule_share(s, 0), 0.1);
  EXPECT_DOUBLE_EQ(schedule_share(s, 10), 1);
  EXPECT_NEAR(schedule_share(s, 60), 0.5, 1e-15);
  s.lr = 0;
  EXPECT_EQ(schedule_share(s, 60), 0);
}

}  // namespace
}  // namespace plumb
