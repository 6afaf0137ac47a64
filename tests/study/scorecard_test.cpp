#include "plumb/study/scorecard.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/small_run.h"

namespace plumb::test {
namespace {

// 10 of 100: Wilson's interval is 0.0552 to 0.1744 (Brown, Cai and DasGupta 2001, Statistical Science 16, formula 4).
TEST(Scorecard, TheIntervalIsWilsons) {
  const auto [low, high] = wilson(10, 100);
  EXPECT_NEAR(low, 0.0552, 5e-5);
  EXPECT_NEAR(high, 0.1744, 5e-5);
  EXPECT_NEAR(wilson(0, 50).first, 0, 1e-12);
  EXPECT_NEAR(wilson(50, 50).second, 1, 1e-12);
}

TEST(Scorecard, CountsWhatIsAccepted) {
  ScoreCase c{.fault = "no_final_norm", .named = {"residual_growth", "no_final_norm"}};
  EXPECT_FALSE(c.first());
  EXPECT_TRUE(c.in_three());
  c.named = {};
  EXPECT_FALSE(c.first() || c.in_three());
}

TEST(Scorecard, EveryFaultMayBeAnsweredByItself) {
  for (const FaultEntry& f : fault_table()) {
    const auto may = accepted_causes(f.name);
    EXPECT_TRUE(may.empty() || may.front() == f.name) << f.name;
  }
}

TEST(Scorecard, TheSaltDrawsTheCases) {
  Components few;
  std::erase_if(few.fault, [](const FaultEntry& e) { return e.name != "no_final_norm"; });
  const auto drawn = [&](const std::string& salt) {
    return score({.salt = salt, .per_fault = 1, .healthy = 1}, few, made_up_text());
  };
  const auto a = drawn("a"), again = drawn("a"), b = drawn("b");
  ASSERT_EQ(a.size(), 2U);
  EXPECT_EQ(a[0].set, again[0].set);
  EXPECT_NE(a[0].set, b[0].set);
  EXPECT_EQ(a[0].named, (std::vector<std::string>{"no_final_norm"}));
  EXPECT_EQ(a[1].verdict, "healthy");
}

}  // namespace
}  // namespace plumb::test
