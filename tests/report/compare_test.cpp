// Runs beside each other: one that broke hides nothing of the others, and says where.
#include "plumb/report/compare.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "plumb/report/terminal_plot.h"

namespace plumb {
namespace {

NamedTrace run_of(const std::string& name, const std::vector<double>& losses) {
  NamedTrace t{name, {}};
  for (std::size_t i = 0; i < losses.size(); ++i) {
    StepRow row;
    row.step = static_cast<std::int64_t>(i);
    row.values = {{"loss", losses[i]}};
    if (i == 0) row.values.emplace_back("logit_std", 0.5);
    t.trace.steps.push_back(row);
  }
  return t;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

TEST(TerminalPlot, ASeriesThatBrokeDoesNotFlattenTheOthers) {
  Series good{"good", {}}, bad{"bad", {{0, 4}, {5, 3}, {10, 1e17}}, 11.0};
  for (int i = 0; i <= 40; ++i) good.points.emplace_back(i, 4.0 - 0.05 * i);
  const auto lines = lines_of(terminal_plot({good, bad}, 41, 11));
  EXPECT_EQ(lines[0].substr(0, 12), "         4 |");  // the highest that is finite in every run
  for (std::size_t row = 0; row < 11; ++row) EXPECT_NE(lines[row].find('a'), std::string::npos) << lines[row];
  EXPECT_EQ(lines[0][12 + 10], 'b');  // too high: at the edge
  EXPECT_EQ(lines[0][12 + 11], '!');
  EXPECT_NE(std::ranges::find(lines, "           b bad, not finite from 11 on (!)"), lines.end());
}

TEST(TerminalPlot, AloneItHasAFrameToo) {
  EXPECT_NE(terminal_plot({{"bad", {{0, 4}, {1, 1e30}}, 2.0}}).find("       3.5 |"), std::string::npos);
  EXPECT_EQ(terminal_plot({{"bad", {}, 0.0}}), "(nothing to draw)\n");
}

TEST(Compare, SaysWhereEachWasMeasuredAndNaNWithoutASign) {
  const auto text = compare_text({run_of("good", {4, 3, 2}), run_of("bad", {4, -std::nan("")})}, 40);
  EXPECT_EQ(text.find("-nan"), std::string::npos) << text;
  EXPECT_NE(text.find("bad, not finite from 1 on (!)"), std::string::npos) << text;
  EXPECT_NE(text.find("\nloss                                2 @2      NaN @1"), std::string::npos) << text;
  EXPECT_NE(text.find("logit_std                            0.5         0.5\n"), std::string::npos) << text;
}

TEST(Compare, TellsNoValueFromOneThatIsNotFinite) {
  NamedTrace other{"other", {}};
  const auto measured = last_values({run_of("a", {4}), other});
  ASSERT_FALSE(measured.empty());
  for (const Measured& m : measured) EXPECT_EQ(m.steps, (std::vector<std::int64_t>{0, -1})) << m.metric;
  const Json j = compare_json({run_of("a", {4, 3}), other});
  EXPECT_EQ(j.at("last_step", "the answer").at("loss", "last_step").dump(), "[1,-1]");
}

}  // namespace
}  // namespace plumb
