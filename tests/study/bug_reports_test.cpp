// Faults of real projects: each is named, and what must not be blamed is not.
#include "plumb/study/bug_reports.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "plumb/base/text.h"
#include "plumb/doctor/doctor.h"

namespace plumb {
namespace {

class RealFault : public ::testing::TestWithParam<std::size_t> {};

TEST_P(RealFault, IsAnsweredRightly) {
  const BugReport r = bug_reports()[GetParam()];
  if (r.set.empty()) {
    EXPECT_FALSE(r.elsewhere.empty()) << r.reference;
    return;
  }
  const ReportAnswer a = answer_to(r, Components{}, load_corpus("embedded", {}));
  EXPECT_TRUE(a.right) << r.reference << ": " << a.verdict << " " << join(a.named);
}

INSTANTIATE_TEST_SUITE_P(Each, RealFault, ::testing::Range(std::size_t{0}, bug_reports().size()));

TEST(RealFaults, NameCausesThatExist) {
  const auto table = doctor_table();
  for (const BugReport& r : bug_reports())
    for (const std::string& name : r.names)
      EXPECT_TRUE(std::ranges::any_of(table, [&](const Cause& c) { return c.name == name; })) << name;
}

}  // namespace
}  // namespace plumb
