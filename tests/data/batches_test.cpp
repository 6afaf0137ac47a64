#include "plumb/data/batches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <vector>

#include "plumb/data/baselines.h"
#include "tests/support/error_text.h"

namespace plumb {
namespace {

using test::error_text;
using Ids = std::vector<std::int32_t>;

Ids counting(std::size_t n) {
  Ids tokens(n);
  std::iota(tokens.begin(), tokens.end(), 0);
  return tokens;
}

TEST(Split, IsContiguousAndComplete) {
  const Ids tokens = counting(101);
  const Split split = split_tokens(tokens, 0.9, 8);
  EXPECT_EQ(split.train.size(), 90U);
  EXPECT_EQ(split.validation.size(), 11U);
  EXPECT_EQ(split.train.front(), 0);
  EXPECT_EQ(split.validation.front(), 90);
}

TEST(Split, RefusesATextShorterThanABlock) {
  EXPECT_EQ(error_text([] { split_tokens(counting(10), 0.9, 9); }),
            "the training split has 9 tokens, but a block of 9 needs 10; use a longer corpus, a larger "
            "data.split or a smaller "
            "model.block_size");
  EXPECT_EQ(
      error_text([] { split_tokens(counting(10), 0.9, 4); }),
      "the validation split has 1 tokens, but a target needs 2; use a longer corpus or a smaller data.split");
}

TEST(Windows, AreInsideAndTargetsComeOneLater) {
  const Ids tokens = counting(20);
  const Windows windows(tokens, 8, 1);
  Ids x(3 * 8), y(3 * 8);
  for (std::int64_t step = 0; step < 50; ++step) {
    windows.fill(step, 0, x, y);
    for (std::size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(y[i], x[i] + 1);
      if (i % 8 == 0) continue;
      ASSERT_EQ(x[i], x[i - 1] + 1);
    }
  }
}

TEST(Windows, ReachEveryStartAboutEquallyOften) {
  const Ids tokens = counting(20);
  const Windows windows(tokens, 8, 1);
  std::vector<double> counts(12);  // starts 0 … 11
  constexpr int draws = 12000;
  for (std::int64_t i = 0; i < draws; ++i)
    ++counts.at(static_cast<std::size_t>(windows.offset(i / 32, i % 32)));
  double chi_squared = 0;
  for (const double c : counts) chi_squared += (c - 1000) * (c - 1000) / 1000;
  EXPECT_LT(chi_squared, 31.26);  // the 99.9 % point for 11 degrees of freedom
}

// How a batch is cut must not matter: accumulation, shards and resumption all rest on it.
TEST(Windows, DependOnSeedStepAndGlobalSampleOnly) {
  const Ids tokens = counting(1000);
  const Windows windows(tokens, 8, 1), other(tokens, 8, 2);
  Ids x(4 * 8), y(4 * 8), part(2 * 8), part_y(2 * 8), second(4 * 8), second_y(4 * 8);
  windows.fill(5, 0, x, y);
  windows.fill(6, 0, second, second_y);
  windows.fill(5, 2, part, part_y);  // later, and only half
  EXPECT_TRUE(std::equal(part.begin(), part.end(), x.begin() + 16));
  EXPECT_NE(x, second);
  other.fill(5, 0, second, second_y);
  EXPECT_NE(x, second);
}

TEST(Blocks, MakeEveryTokenButTheFirstATargetOnce) {
  for (const std::size_t n : {2U, 8U, 9U, 10U, 25U, 33U}) {
    const Ids tokens = counting(n);
    const Blocks blocks(tokens, 8);
    Ids x(static_cast<std::size_t>(blocks.size()) * 8), y(x.size());
    blocks.fill(0, x, y);
    std::int32_t next = 1;
    for (std::size_t i = 0; i < y.size(); ++i) {
      if (y[i] == -100) {
        EXPECT_EQ(x[i], 0);
        continue;
      }
      EXPECT_EQ(y[i], next);
      EXPECT_EQ(x[i], next - 1);
      ++next;
    }
    EXPECT_EQ(static_cast<std::size_t>(next), n);
    EXPECT_EQ(static_cast<std::size_t>(blocks.targets()), n - 1);
  }
}

TEST(Blocks, ComeInPartsAndEndInPadding) {
  const Ids tokens = counting(12);
  const Blocks blocks(tokens, 4, -1);
  EXPECT_EQ(blocks.size(), 3);
  Ids x(8), y(8);
  blocks.fill(2, x, y);
  EXPECT_EQ(x, (Ids{8, 9, 10, 0, 0, 0, 0, 0}));
  EXPECT_EQ(y, (Ids{9, 10, 11, -1, -1, -1, -1, -1}));
  blocks.fill(9, x, y);
  EXPECT_EQ(y, Ids(8, -1));
  EXPECT_EQ(error_text([&] { blocks.fill(0, std::span(x).first(7), y); }),
            "[batch] x has 7 tokens and y 8; give both a whole number of rows of 4");
}

// Newline is 9. Lines: 1 2 3, none, 4, 5 6 7 8 1 2 (cut at 4), 5 6 7 8 (its newline does not fit), and 2
// without an end.
const Ids lined{1, 2, 3, 9, 9, 4, 9, 5, 6, 7, 8, 1, 2, 9, 5, 6, 7, 8, 9, 2};

TEST(PaddedBlocks, HaveOneLineARow) {
  const PaddedBlocks rows(lined, 4, 9);
  ASSERT_EQ(rows.size(), 5);
  EXPECT_EQ(rows.lines().cut(), 1);
  Ids x(6 * 4), y(x.size());
  rows.fill(0, x, y);
  EXPECT_EQ(x, (Ids{9, 1, 2, 3, 9, 4, 0, 0, 9, 5, 6, 7, 9, 5, 6, 7, 9, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(y, (Ids{1, 2, 3, 9, 4, 9,    -100, -100, 5,    6,    7,    8,
                    5, 6, 7, 8, 2, -100, -100, -100, -100, -100, -100, -100}));
  EXPECT_EQ(rows.targets(), 15);
  EXPECT_EQ(std::count_if(y.begin(), y.end(), [](std::int32_t id) { return id >= 0; }), rows.targets());
  Ids part(4), part_y(4);
  rows.fill(2, part, part_y);
  EXPECT_EQ(part_y, (Ids{5, 6, 7, 8}));
  PaddedBlocks(lined, 4, 9, -1).fill(4, part, part_y);
  EXPECT_EQ(part_y, (Ids{2, -1, -1, -1}));
}

// A text with its last newline gives each line's characters and newline, once.
TEST(PaddedBlocks, MakeEveryTokenOfALineATarget) {
  const Ids tokens{1, 2, 9, 3, 9, 9, 4, 5, 6, 9};
  const PaddedBlocks rows(tokens, 8, 9);
  Ids x(3 * 8), y(x.size()), targets;
  rows.fill(0, x, y);
  std::copy_if(y.begin(), y.end(), std::back_inserter(targets), [](std::int32_t id) { return id >= 0; });
  EXPECT_EQ(targets, (Ids{1, 2, 9, 3, 9, 4, 5, 6, 9}));
  EXPECT_EQ(rows.lines().cut(), 0);
}

TEST(PaddedRows, DependOnSeedStepAndGlobalSampleOnly) {
  const PaddedRows rows(lined, 4, 9, 1), other(lined, 4, 9, 2);
  Ids x(16 * 4), y(x.size()), part(8 * 4), part_y(part.size()), second(x.size()), second_y(x.size());
  rows.fill(5, 0, x, y);
  rows.fill(6, 0, second, second_y);
  EXPECT_NE(x, second);
  rows.fill(5, 8, part, part_y);  // later, and only half
  EXPECT_TRUE(std::equal(part.begin(), part.end(), x.begin() + 32));
  EXPECT_TRUE(std::equal(part_y.begin(), part_y.end(), y.begin() + 32));
  other.fill(5, 0, second, second_y);
  EXPECT_NE(x, second);
}

TEST(PaddedRows, ReachEveryLineAboutEquallyOften) {
  const PaddedRows rows(lined, 4, 9, 1);
  std::vector<double> counts(5);
  for (std::int64_t i = 0; i < 5000; ++i) ++counts.at(static_cast<std::size_t>(rows.line(i / 32, i % 32)));
  double chi_squared = 0;
  for (const double c : counts) chi_squared += (c - 1000) * (c - 1000) / 1000;
  EXPECT_LT(chi_squared, 18.47);  // the 99.9 % point for 4 degrees of freedom
  // What a sample gets is that line's row.
  const PaddedBlocks in_order(lined, 4, 9);
  Ids x(4), y(4), line_x(4), line_y(4);
  for (std::int64_t sample = 0; sample < 20; ++sample) {
    rows.fill(3, sample, x, y);
    in_order.fill(rows.line(3, sample), line_x, line_y);
    ASSERT_EQ(x, line_x);
    ASSERT_EQ(y, line_y);
  }
}

TEST(PaddedRows, RefuseATextWithoutLines) {
  int code = 0;
  EXPECT_EQ(error_text([] { PaddedRows(lined, 4, 0, 1); }, &code),
            "rows = \"padded\" takes one line a row, but the newline is not in the vocabulary; use a text "
            "with more "
            "than one line or a larger data.vocab_size");
  EXPECT_EQ(code, 2);
  EXPECT_EQ(
      error_text([] {
        PaddedBlocks(Ids{9, 9}, 4, 9);
      }),
      "rows = \"padded\" takes one line a row, but a split of 2 tokens has none that is not empty; use a "
      "longer corpus or another data.split");
  EXPECT_EQ(error_text([] { PaddedBlocks(lined, 0, 9); }), "model.block_size is 0; set it to 1 or more");
  const PaddedBlocks rows(lined, 4, 9);
  Ids x(7), y(8);
  EXPECT_EQ(error_text([&] { rows.fill(0, x, y); }),
            "[batch] x has 7 tokens and y 8; give both a whole number of rows of 4");
}

// By hand: V = 4, training counts 2, 1, 0, 0 plus one each over 3 + 4: p = 3/7, 2/7, 1/7, 1/7. Targets are 1
// and 3.
TEST(Baselines, AreCrossEntropiesOnTheValidationTargets) {
  const Ids train{0, 1, 0}, validation{2, 1, 3};
  const Baselines b = baselines(train, validation, 4);
  EXPECT_DOUBLE_EQ(b.uniform, std::log(4.0));
  EXPECT_DOUBLE_EQ(b.unigram, (std::log(7.0 / 2) + std::log(7.0)) / 2);
  EXPECT_EQ(
      error_text([&] { baselines(train, std::span(validation).first(1), 4); }),
      "the validation split has 1 tokens, but a target needs 2; use a longer corpus or a smaller data.split");
}

}  // namespace
}  // namespace plumb
