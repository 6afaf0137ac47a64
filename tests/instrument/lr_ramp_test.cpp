// The range test.
#include <cmath>

#include "plumb/base/error.h"
#include "plumb/study/audit.h"
#include "tests/instrument/rig.h"

namespace plumb::test {
namespace {

TEST(LrRamp, FourDecadesAroundTheRate) {
  OnSmall s({"train.lr=0.001"});
  const Json r = s.read("lr_ramp");
  const auto& steps = list(r, "steps");
  ASSERT_EQ(steps.size(), 40u);
  EXPECT_NEAR(number(steps.front(), "lr"), 1e-5, 1e-12);
  EXPECT_NEAR(number(steps.back(), "lr"), 1e-1, 1e-8);
  EXPECT_NEAR(number(steps[1], "lr") / number(steps[0], "lr"), std::pow(10, 4.0 / 39), 1e-9);
  // The first losses are of the model as it is, on the run's first tokens.
  EXPECT_NEAR(number(steps[0], "loss"), s.p.pass(Mode::train).loss.cross_entropy, 0.1);
  // The mark stands where the mean fell the most over two steps.
  double fastest = 0, at = 0;
  for (std::size_t i = 1; i + 1 < steps.size(); ++i)
    if (const double fall = number(steps[i - 1], "mean") - number(steps[i + 1], "mean"); fall > fastest)
      fastest = fall, at = number(steps[i], "lr");
  EXPECT_EQ(number(r, "steepest_lr"), at);
}

// SGD at ten thousand times a fair rate throws the model off; at a millionth of one nothing moves.
TEST(LrRamp, BreaksWhereARateIsTooHigh) {
  const Json high = OnSmall({"train.optimizer=sgd", "train.lr=100"}).read("lr_ramp");
  EXPECT_TRUE(high.at("breaks_lr", "reading").is_number());
  const Json low = OnSmall({"train.optimizer=sgd", "train.lr=1e-8"}).read("lr_ramp");
  EXPECT_TRUE(low.at("breaks_lr", "reading").is_null());
}

// The doctor's facts are of the same test.
TEST(LrRamp, IsTheAuditsToo) {
  OnSmall s;
  Trace t;
  FactSheet facts(t);
  audit_ramp(s.p, facts, {});
  const Json r = s.read("lr_ramp");
  ASSERT_EQ(t.facts.size(), 2u);
  const auto& losses = t.facts[1].value.as_array("ramp_loss");
  ASSERT_EQ(losses.size(), list(r, "steps").size());
  for (std::size_t i = 0; i < losses.size(); ++i)
    EXPECT_EQ(losses[i].as_double("loss"), number(list(r, "steps")[i], "loss"));
}

TEST(LrRamp, StopsWhenAsked) {
  OnSmall s;
  EXPECT_THROW(s.read("lr_ramp", {.interrupted = [] { return true; }}), Error);
}

}  // namespace
}  // namespace plumb::test
