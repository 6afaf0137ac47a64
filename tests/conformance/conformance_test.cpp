// Every entry of every table against every check. New files in a family's folder are found by themselves.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cctype>
#include <ostream>
#include <string>

#include "tests/conformance/harness.h"

namespace plumb::conformance {

// How gtest prints a subject.
void PrintTo(const Subject& s, std::ostream* out) { *out << s.text(); }

namespace {

const Components& tables() {
  static const Components c;
  return c;
}

class Conformance : public testing::TestWithParam<Subject> {};

TEST_P(Conformance, GradientsMatchCentralDifferences) {
  double worst = 0;
  EXPECT_EQ(check_gradients(GetParam(), &worst), "");
  RecordProperty("worst_gradient_error", fmt::format("{:.1e}", worst));
}
TEST_P(Conformance, FloatMatchesDouble) { EXPECT_EQ(check_float(GetParam()), ""); }
TEST_P(Conformance, TheComposedTwinAgrees) { EXPECT_EQ(check_twin(GetParam()), ""); }
TEST_P(Conformance, BitsDoNotDependOnHowItIsRun) { EXPECT_EQ(check_bits(GetParam()), ""); }
TEST_P(Conformance, NanIsNeverHidden) { EXPECT_EQ(check_nan(GetParam()), ""); }
TEST_P(Conformance, OddSizesWork) { EXPECT_EQ(check_odd_sizes(GetParam()), ""); }
TEST_P(Conformance, TwentyStepsLowerTheLoss) { EXPECT_EQ(check_training(GetParam()), ""); }
TEST_P(Conformance, NothingLaterIsSeenUnlessSaid) { EXPECT_EQ(check_causality(GetParam()), ""); }
TEST_P(Conformance, OneAtATimeIsAllAtOnce) { EXPECT_EQ(check_decoding(GetParam()), ""); }
TEST_P(Conformance, AWrongShapeIsRefused) { EXPECT_EQ(check_shape_errors(GetParam()), ""); }

INSTANTIATE_TEST_SUITE_P(All, Conformance, testing::ValuesIn(subjects(tables())), [](const auto& info) {
  std::string name = info.param.family + "_" + info.param.name +
                     (info.param.variant.empty() ? "" : "_" + info.param.variant);
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
});

}  // namespace

}  // namespace plumb::conformance
