// What `explain` says: every entry, with an example that its component gives, and the pages made of it.
#include "plumb/study/explain.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "plumb/base/files.h"
#include "plumb/config/config.h"

namespace plumb {
namespace {

Explanation find(const std::string& family, const std::string& name) {
  for (Explanation& x : explanations(Components{}))
    if (x.family == family && x.name == name) {
      x.example = worked_example(Components{}, x);
      return x;
    }
  ADD_FAILURE() << family << " " << name;
  return {};
}

TEST(Explain, EveryEntrySaysAllOfIt) {
  const Components c;
  std::size_t n = 0;
  for (const Explanation& x : explanations(c)) {
    ++n;
    SCOPED_TRACE(x.family + " " + x.name);
    EXPECT_FALSE(x.purpose.empty());
    EXPECT_FALSE(x.formula.empty());
    EXPECT_EQ(x.paper.empty(), x.name == "plain" || (x.name == "none" && x.family != "position"));
    for (const std::string& f : x.fields) EXPECT_NE(find_config_field(f), nullptr) << f;
    const auto lines = worked_example(c, x);
    EXPECT_GE(lines.size(), 2U);
    EXPECT_LE(lines.size(), 6U);
    for (const std::string& line : lines) EXPECT_EQ(line.find("nan"), std::string::npos) << line;
  }
  std::size_t entries = 0;
  each_table(c, [&](auto, auto, const auto& table) { entries += table.size(); });
  EXPECT_EQ(n, entries);
}

// The numbers of a few, by their formulas.
TEST(Explain, ExamplesAreTheFormulas) {
  // (2, 4, 6, 8): mean 5, variance 5; mean square 30.
  EXPECT_EQ(find("norm", "layer").example[2].substr(10, 29), "-1.342 -0.4472 0.4472 1.342 |");
  EXPECT_EQ(find("norm", "rms").example[2].substr(10, 29), "0.3651 0.7303 1.095 1.461 | 0");
  EXPECT_EQ(find("norm", "none").example[2].substr(10), "2 4 6 8 | 1 0 -1 2");
  EXPECT_EQ(find("residual", "add").example[4].substr(10), "5.062 10.12");  // 1.5^4
  EXPECT_EQ(find("residual", "none").example[4].substr(10), "0.0625 0.125");
  EXPECT_EQ(find("residual", "rezero").example[4].substr(10), "1 2");
  EXPECT_EQ(find("residual", "depth_scale").example[2].substr(10), "1.25 2.5");  // 1 + 1/2 / sqrt 4
  EXPECT_EQ(find("ffn", "relu").example[2].substr(10), "0 0 0 1 2");
  EXPECT_EQ(find("ffn", "reglu").example[2].substr(10), "0 0 0 1 4");
  EXPECT_EQ(find("ffn", "gelu").example[2].substr(10), "-0.0455 -0.1587 0 0.8413 1.954");
  EXPECT_EQ(find("position", "alibi").example[2].substr(10),
            "0 -0.0625 -0.125 -0.9375 -1 -1.938 -4 -12.5");  // 2^-4
  EXPECT_EQ(find("position", "t5").example[2].substr(10), "0 1 2 15 16 21 26 31");
  EXPECT_EQ(find("position", "rope").example[2].substr(10),
            "0.5403 1 0.8415 0.01");                                  // pairs (0, 2), (1, 3): angles 1, 0.01
  EXPECT_EQ(find("init", "gpt2").example[3].substr(25), "0.004082");  // 0.02 / sqrt 24
  EXPECT_EQ(find("init", "lecun").example[2].substr(25), "0.08839");  // 1 / sqrt 128
  EXPECT_EQ(find("optim", "adamw").example[1].substr(10), "-0.1 0 | 0 -0.1");
  EXPECT_EQ(find("weight", "weight_norm").example[2], "used      1 2 3 | 0 2 -2");
}

// docs/components/ is this; PLUMB_WRITE_DOCS=1 writes it anew.
TEST(Explain, DocumentsAreUpToDate) {
  const auto folder = std::filesystem::path(PLUMB_SOURCE_DIR) / "docs/components";
  const Components c;
  for (const std::string& family : family_names(c)) {
    const auto page = folder / (family + ".md");
    const std::string text = family_markdown(c, family);
    if (std::getenv("PLUMB_WRITE_DOCS")) write_file_atomic(page, text);
    EXPECT_EQ(read_file(page), text)
        << page << ": run PLUMB_WRITE_DOCS=1 build/dev/plumb_tests --gtest_filter='*Document*'";
  }
}

}  // namespace
}  // namespace plumb
