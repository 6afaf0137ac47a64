// Every two entries together: five steps as in double, and learning from context unless they are declared not
// to.
#include "tests/conformance/covering.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace plumb::conformance {
namespace {

const Covering& all() {
  static const Components c;
  static const Covering made = covering(c);
  return made;
}

// Which cells are meant not to get below the unigram entropy in sixty steps, and why; empty: it learns.
std::string declared_to_fail(const DecoderSpec&) { return {}; }

void run(std::size_t from, std::size_t step) {
  double worst = 0;
  int learning = 0, failing = 0;
  for (std::size_t i = from; i < all().cells.size(); i += step) {
    const Subject& s = all().cells[i];
    EXPECT_EQ(check_five_steps(s, &worst), "");
    const std::string why = declared_to_fail(s.spec);
    const double reached = learned(s);
    if (why.empty()) {
      EXPECT_LT(reached, 0.9) << s.text();
    } else {
      EXPECT_GE(reached, 0.9) << s.text() << " was to fail: " << why;
    }
    (why.empty() ? learning : failing) += 1;
  }
  fmt::print("{} cells: {} to learn, {} to fail as declared; float against double at most {:.1e}\n",
             learning + failing, learning, failing, worst);
}

TEST(Covering, EveryPairOfEntriesMeetsOrIsRefusedForAReason) {
  std::size_t entries = 0, pairs = 0;
  const Components c;
  const auto families = family_names(c);
  for (std::size_t f = 0; f < families.size(); ++f) {
    entries += families[f].second.size();
    for (std::size_t g = f + 1; g < families.size(); ++g)
      pairs += families[f].second.size() * families[g].second.size();
  }
  fmt::print("{} entries, {} pairs: {} cells, {} pairs refused\n", entries, pairs, all().cells.size(),
             all().refused.size());
  for (const std::string& r : all().refused) {
    EXPECT_NE(r.find(": "), std::string::npos) << r;
    fmt::print("  {}\n", r);
  }
  EXPECT_LT(all().refused.size(), pairs / 4);
}

TEST(Covering, ASampleOfCellsTrains) { run(0, 6); }
TEST(SlowCovering, EveryCellTrains) { run(0, 1); }

}  // namespace
}  // namespace plumb::conformance
