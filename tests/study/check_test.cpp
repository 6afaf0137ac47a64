// What `plumb check` measures holds, and would be seen if it did not.
#include "plumb/study/check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace plumb {
namespace {

TEST(Checks, AllHold) {
  std::set<std::string> ids;
  for (const CheckGroup& g : check_groups())
    for (const Check& c : g.run(Components{})) {
      EXPECT_TRUE(c.pass) << c.id << ": " << c.name << " is " << c.value << ", expected " << c.expected;
      EXPECT_TRUE(ids.insert(c.id).second) << c.id << " twice";
    }
  EXPECT_GE(ids.size(), 40U);
}

// Tables in which `name` is what `other` is.
template <auto Table>
Components with_swapped(const std::string& name, const std::string& other) {
  Components c;
  auto& table = c.*Table;
  const auto is = [](const std::string& n) { return [n](const auto& e) { return e.name == n; }; };
  const auto from = *std::ranges::find_if(table, is(other));
  auto& to = *std::ranges::find_if(table, is(name));
  const auto kept = to.name;
  to = from;
  to.name = kept;
  return c;
}

int failed(const std::vector<Check>& all) {
  return static_cast<int>(std::ranges::count_if(all, [](const Check& c) { return !c.pass; }));
}

TEST(Checks, WouldBeSeenIfTheyDidNot) {
  const Components rms = with_swapped<&Components::norm>("layer", "rms"),
                   layer = with_swapped<&Components::norm>("rms", "layer");
  EXPECT_GT(failed(check_layer_norm(rms)), 0);
  EXPECT_GT(failed(check_rms_norm(layer)), 1);
  EXPECT_GT(failed(check_norm_responses(rms)), 0);
  EXPECT_GT(failed(check_group_norm(rms)), 0);
  EXPECT_GT(failed(check_residual_growth(with_swapped<&Components::residual>("depth_scale", "add"))), 0);
  EXPECT_GT(failed(check_identity_starts(with_swapped<&Components::residual>("skip_init", "add"))), 0);
}

}  // namespace
}  // namespace plumb
