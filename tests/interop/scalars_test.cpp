#include "plumb/interop/scalars.h"

#include <gtest/gtest.h>

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
  const Trace t = trace_of_scalars({{5, "loss", 1}, {5, "lr", 2}, {5, "loss", 3}, {7, "loss", 4}}, "x");
  ASSERT_EQ(t.steps.size(), 2U);
  EXPECT_EQ(*t.steps[0].find("loss"), 3);
  EXPECT_EQ(*t.steps[0].find("lr"), 2);
  EXPECT_TRUE(t.warning.empty());
  const auto absent = absent_metrics(t);
  EXPECT_EQ(std::count(absent.begin(), absent.end(), "loss"), 0);
  EXPECT_EQ(std::count(absent.begin(), absent.end(), "act_std"), 1);
}

}  // namespace
}  // namespace plumb
