// When a loss leaves the band of its healthy twins, on made-up curves; and one case trained to the end.
#include "plumb/study/trained_score.h"

#include <gtest/gtest.h>

#include "plumb/data/text_corpus.h"

namespace plumb {
namespace {

std::vector<double> flat(std::size_t n, double value) { return std::vector<double>(n, value); }

TEST(LeavesBand, AtTheFirstLastingDifference) {
  // The twins are 0.01 apart: the band is three times the least of 0.02. From step 50 on the loss is 1 above: the mean of 20 is out
  // of the band at 49 + 2 (0.1 > 0.06), which has lasted for 20 steps, and was smoothed over 20, at 32 + 39.
  auto loss = flat(200, 5);
  for (std::size_t i = 50; i < 200; ++i) loss[i] = 6;
  const auto at = leaves_band(loss, flat(200, 5), flat(200, 5.01));
  ASSERT_TRUE(at);
  EXPECT_EQ(*at, 71);
}

TEST(LeavesBand, NeverWhereItStaysWithinThreeTimesTheTwinsOwnDifference) {
  EXPECT_FALSE(leaves_band(flat(200, 5.2), flat(200, 5), flat(200, 5.1)));
  EXPECT_TRUE(leaves_band(flat(200, 5.4), flat(200, 5), flat(200, 5.1)));
}

TEST(LeavesBand, WhereTheRunBroke) { EXPECT_EQ(leaves_band(flat(30, 5), flat(200, 5), flat(200, 5)), 30); }

TEST(TrainedScore, AFaultThatHurtsIsConfirmedAndAnotherSeedIsNot) {
  ScoreCase c{.fault = "lr_too_low",
              .set = {"model.n_layer=2", "model.d_model=32", "model.d_ff=64", "model.block_size=16",
                      "data.vocab_size=40", "train.seed=1"}};
  c.named = {"lr_too_low"};
  const Components components;
  const auto all = score_trained({c, ScoreCase{}}, {.steps = 60, .confirm_steps = 60}, components,
                                 load_corpus("embedded", {}));
  ASSERT_EQ(all.size(), 1U);  // the healthy one is left out
  EXPECT_TRUE(all[0].hurts);
  EXPECT_EQ(all[0].mend, true);
  EXPECT_EQ(all[0].placebo, false);
  EXPECT_TRUE(all[0].leaves_at);
  ASSERT_FALSE(all[0].run.empty());
  EXPECT_EQ(all[0].run.front(), "lr_too_low");
  const Json j = trained_json(all);
  EXPECT_EQ(j.find("mend_confirmed")->find("k")->as_int(""), 1);
  EXPECT_NE(trained_markdown(all, {}).find("`lr_too_low`"), std::string::npos);
}

}  // namespace
}  // namespace plumb
