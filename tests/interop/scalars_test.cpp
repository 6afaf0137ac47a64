#include "plumb/interop/scalars.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace plumb {
namespace {

TEST(Scalars, NamesOfOtherTrainersAreKnown) {
  for (const char* name : {"loss", "Loss/train", "train/loss", "training_loss", "train-loss"})
    EXPECT_EQ(metric_of(name), "loss") << name;
  for (const char* name : {"eval/loss", "val_loss", "Loss/validation", "valid.loss"})
    EXPECT_EQ(metric_of(name), "val_loss") << name;
  EXPECT_EQ(metric_of("train/learning_rate"), "lr");
  EXPECT_EQ(metric_of("train/global_step"), "step");
  EXPECT_EQ(metric_of("MoE/balance_loss"), "MoE/balance_loss");
}

TEST(Scalars, OneRowAStepAndTheLastValueCounts) {
  ScalarLog log;
  const auto loss = log.id("loss"), lr = log.id("lr");
  EXPECT_EQ(log.id("loss"), loss);
  log.add(5, loss, 1);
  log.add(5, lr, 2);
  log.add(5, loss, 3);
  log.add(7, loss, 4);
  log.add(-1, loss, 9);
  const Trace t = log.trace("x");
  ASSERT_EQ(t.steps.size(), 2U);
  ASSERT_EQ(t.steps[0].values.size(), 2U);
  EXPECT_EQ(*t.steps[0].find("loss"), 3);
  EXPECT_EQ(*t.steps[0].find("lr"), 2);
  EXPECT_EQ(t.warning, "1 numbers of steps below 0 are left out");
  const auto absent = absent_metrics(t);
  EXPECT_EQ(std::count(absent.begin(), absent.end(), "loss"), 0);
  EXPECT_EQ(std::count(absent.begin(), absent.end(), "act_std"), 1);
}

// Steps 0 10 20 and, after going back, 10 30: what was logged at 10 before the loss of the second time
// belongs to it.
TEST(Scalars, ARunThatWentBackKeepsWhatItLoggedThen) {
  ScalarLog log;
  const auto norm = log.id("grad_norm"), loss = log.id("loss");
  for (const auto& [step, value] : {std::pair{0, 1.0}, {10, 2.0}, {20, 3.0}, {10, 4.0}, {30, 5.0}}) {
    log.add(step, norm, value);
    log.add(step, loss, 10 * value);
  }
  const Trace t = log.trace("x");
  ASSERT_EQ(t.steps.size(), 3U);
  EXPECT_EQ(*t.steps[1].find("grad_norm"), 4);
  EXPECT_EQ(*t.steps[1].find("loss"), 40);
  EXPECT_EQ(t.steps[2].step, 30);
  EXPECT_NE(t.warning.find("go back to 10"), std::string::npos);
}

}  // namespace
}  // namespace plumb
