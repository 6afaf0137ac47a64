// Arms that change nothing are left out, those that cannot be are refused in a sentence, and what broke is a
// result.
#include "plumb/study/ladder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "plumb/base/error.h"
#include "tests/support/small_run.h"

namespace plumb::test {
namespace {

// Without most of what can be left out, so that few arms are trained.
Config small(const std::vector<std::string>& set) {
  Config c = small_config();
  for (const char* s :
       {"model.n_layer=1", "model.position=none", "model.tied_embeddings=false", "model.final_norm=false",
        "model.attention.qk_projection=false", "model.attention.value_projection=false"})
    set_value(c, s);
  for (const std::string& s : set) set_value(c, s);
  return c;
}

const Rung* rung(const Ladder& l, const std::string& arm) {
  const auto at = std::ranges::find(l.rungs, arm, &Rung::arm);
  return at == l.rungs.end() ? nullptr : &*at;
}

TEST(Ladder, FromTheSameSeedsAndPaired) {
  const Config c = small({"model.norm=rms", "init.scheme=xavier"});
  int told = 0, runs = 0;
  const Ladder l = ladder(c, Components{}, made_up_text(),
                          {.steps = 10, .seeds = 2, .progress = [&](std::string_view, int run, int all) {
                             EXPECT_EQ(run, told++);
                             runs = all;
                           }});
  EXPECT_EQ(told, runs);
  ASSERT_EQ(l.rungs.front().arm, "whole");
  EXPECT_EQ(rung(l, "untied embeddings"), nullptr);  // they are
  EXPECT_EQ(rung(l, "no scaled init"), nullptr);     // xavier does not scale
  const Rung* norms = rung(l, "no norms");
  ASSERT_NE(norms, nullptr);
  ASSERT_EQ(norms->losses.size(), 2U);
  // Of two pairs the half width is 12.7062 |d1 - d2| / 2.
  const auto& whole = l.rungs.front().losses;
  const double d1 = norms->losses[0] - whole[0], d2 = norms->losses[1] - whole[1];
  EXPECT_NEAR(norms->delta->mean, (d1 + d2) / 2, 1e-12);
  EXPECT_NEAR(norms->delta->high - norms->delta->mean, 12.7062047 * std::abs(d1 - d2) / 2, 1e-6);
  EXPECT_EQ(runs, 2 * static_cast<int>(std::ranges::count(l.rungs, "", &Rung::refused)));
}

TEST(Ladder, WhatCannotBeLeftOutSaysWhyAndOneSeedHasNoInterval) {
  const Config c = small({"model.placement=parallel", "model.n_kv_head=2",
                          "model.attention.qk_projection=true", "model.attention.value_projection=true"});
  const Ladder l = ladder(c, Components{}, made_up_text(), {.steps = 5, .seeds = 1});
  const Rung *residual = rung(l, "no residual path"), *qk = rung(l, "no query and key projection");
  ASSERT_TRUE(residual && qk);
  EXPECT_NE(residual->refused.find("parallel"), std::string::npos) << residual->refused;
  EXPECT_FALSE(qk->refused.empty());
  EXPECT_FALSE(qk->delta.has_value());
  EXPECT_TRUE(std::isnan(rung(l, "no norms")->delta->low));
}

TEST(Ladder, ARunThatBreaksIsAResult) {
  const Ladder l =
      ladder(small({"fault.inject=non_finite"}), Components{}, made_up_text(), {.steps = 15, .seeds = 1});
  const Rung& whole = l.rungs.front();
  EXPECT_EQ(whole.broke, 1);
  EXPECT_TRUE(std::isnan(whole.losses.front()));
  EXPECT_FALSE(l.rungs.back().delta.has_value());
}

TEST(Ladder, ATidyLossIsATrivialModels) {
  const Baselines b{.uniform = 4, .unigram = 3, .bigram = 2, .trigram = 1};
  EXPECT_EQ(degenerate_as(3.019, b), "unigram");
  EXPECT_EQ(degenerate_as(2.981, b), "unigram");
  EXPECT_EQ(degenerate_as(3.99, b), "uniform");
  EXPECT_EQ(degenerate_as(3.03, b), "");
  EXPECT_EQ(degenerate_as(std::nan(""), b), "");
}

TEST(Ladder, CanBeInterrupted) {
  int asked = 0;
  try {
    ladder(small_config(), Components{}, made_up_text(),
           {.steps = 20, .seeds = 1, .interrupted = [&] { return ++asked > 30; }});
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_EQ(e.exit_code, 130);
  }
}

}  // namespace
}  // namespace plumb::test
