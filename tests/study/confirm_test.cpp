// A finding is confirmed by its mend, and neither by a mend of something else nor by one that does nothing.
#include "plumb/study/confirm.h"

#include <gtest/gtest.h>

#include "tests/support/small_run.h"

namespace plumb::test {
namespace {

using V = std::vector<double>;

Confirmation tried(const Config& c, const Patch& patch) {
  return confirm(c, patch, Components{}, made_up_text(), {.steps = 60});
}

Config slow() {
  Config c = small_config();
  c.train.lr = 3e-6;
  return c;
}

// Differences 1, 2, 3: mean 2, standard error 1 / sqrt(3), and Student's 97.5 % quantile of two degrees of freedom 4.302653
// (tables).
TEST(Confirm, TheIntervalIsStudents) {
  const PairedDifference d = paired(V{2, 4, 6}, V{1, 2, 3});
  EXPECT_NEAR(d.mean, 2, 1e-12);
  EXPECT_NEAR(d.high, 2 + 4.302653 / std::sqrt(3.0), 1e-6);
  EXPECT_NEAR(d.low, 2 - 4.302653 / std::sqrt(3.0), 1e-6);
}

// Differences 1, 2, 3, 4, 5: mean 3, standard error sqrt(2.5 / 5), and 2.776445 for four degrees of freedom (tables).
TEST(Confirm, TheIntervalOfFivePairs) {
  const PairedDifference d = paired(V{2, 4, 6, 8, 10}, V{1, 2, 3, 4, 5});
  EXPECT_NEAR(d.mean, 3, 1e-12);
  EXPECT_NEAR(d.high, 3 + 2.776445 * std::sqrt(0.5), 1e-6);
  EXPECT_THROW(paired(V{}, V{}), Error);
  EXPECT_THROW(paired(V{1, 2}, V{2}), Error);
}

TEST(Confirm, ARunThatBreaksIsWorseThanAnyOther) {
  EXPECT_LT(paired(V{1, 1, 1}, V{2, HUGE_VAL, 2}).high, 0);
  EXPECT_GT(paired(V{1, HUGE_VAL, 1}, V{2, 2, 2}).high, 0);
  const PairedDifference both = paired(V{HUGE_VAL, 2, 3}, V{HUGE_VAL, 1, 2});  // 0, 1, 1
  EXPECT_NEAR(both.mean, 2.0 / 3, 1e-12);
}

TEST(Confirm, TheMendOfWhatIsWrong) {
  const Confirmation c = tried(slow(), {{"train.lr", 3e-3}});
  EXPECT_EQ(c.confirmed, true) << c.because;
  EXPECT_LT(c.mend.mean, -0.1);
}

TEST(Confirm, NotByAPlacebo) {
  EXPECT_EQ(tried(slow(), {{"train.keep_checkpoints", 3}}).confirmed, false);
  EXPECT_EQ(tried(slow(), {{"train.keep_checkpoints", 3}}).mend.mean, 0);  // the same bits
}

TEST(Confirm, NotByTheMendOfSomethingElse) {
  EXPECT_EQ(tried(small_config(), {{"model.norm_eps", 1e-6}}).confirmed, false);
}

TEST(Confirm, WhatCannotBeTried) {
  EXPECT_FALSE(tried(slow(), {}).confirmed.has_value());
  const Confirmation c = tried(slow(), {{"model.n_head", 5}});
  EXPECT_FALSE(c.confirmed.has_value());
  EXPECT_NE(c.because.find("does not fit"), std::string::npos) << c.because;
}

}  // namespace
}  // namespace plumb::test
