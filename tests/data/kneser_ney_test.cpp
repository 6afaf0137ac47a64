#include "plumb/data/kneser_ney.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "plumb/data/baselines.h"
#include "tests/support/error_text.h"

namespace plumb {
namespace {

using Ids = std::vector<std::int32_t>;

double p(const KneserNey& model, const Ids& context, std::int32_t word) {
  return model.probability(context, word);
}

// The same texts as in kneser_ney_reference.py.
Ids reference_tokens(std::size_t n, std::int64_t vocab_size, std::int64_t seed) {
  Ids tokens;
  std::int64_t x = seed;
  for (std::size_t i = 0; i < n; ++i) {
    x = (1103515245 * x + 12345) % (std::int64_t{1} << 31);
    tokens.push_back(static_cast<std::int32_t>(std::min((x >> 16) % vocab_size, (x >> 20) % vocab_size)));
  }
  return tokens;
}

// By hand, for the text 0 1 0 1 0 2 and V = 3. Bigrams: 01 and 10 twice, 02 once: D2 = 1 / (1 + 2 * 2) = 1/5.
// Before each of 0, 1 and 2 stands one kind of token: n2 = 0, so D1 = 1/2 and p(w) = (1 - 1/2)/3 + 1/2 * 1/3
// = 1/3. After 0 come 1, 1 and 2: the weight of the lower order is 1/5 * 2/3. After 1 come 0 and 0: 1/5 *
// 1/2. 2 ends the text: the lower order.
TEST(KneserNey, IsWhatTheDefinitionGivesByHand) {
  const KneserNey model(Ids{0, 1, 0, 1, 0, 2}, 3, 2);
  EXPECT_DOUBLE_EQ(p(model, {0}, 0), 2.0 / 45);
  EXPECT_DOUBLE_EQ(p(model, {0}, 1), 9.0 / 15 + 2.0 / 45);
  EXPECT_DOUBLE_EQ(p(model, {0}, 2), 4.0 / 15 + 2.0 / 45);
  EXPECT_DOUBLE_EQ(p(model, {1}, 0), 9.0 / 10 + 1.0 / 30);
  EXPECT_DOUBLE_EQ(p(model, {1}, 2), 1.0 / 30);
  EXPECT_DOUBLE_EQ(p(model, {2}, 1), 1.0 / 3);
}

TEST(KneserNey, SumsToOneForEveryContextAndHasNoZero) {
  for (const std::size_t n : {0U, 1U, 2U, 3U, 30U, 400U}) {
    const Ids train = reference_tokens(n, 12, 5);
    for (const int order : {2, 3}) {
      const KneserNey model(train, 14, order);  // 12 and 13 never occur
      for (std::int32_t u = 0; u < 14; ++u)
        for (std::int32_t v = 0; v < 14; ++v) {
          double sum = 0;
          for (std::int32_t w = 0; w < 14; ++w) {
            ASSERT_GT(p(model, {u, v}, w), 0);
            sum += p(model, {u, v}, w);
          }
          ASSERT_NEAR(sum, 1, 1e-12) << "order " << order << ", " << n << " tokens, after " << u << " " << v;
        }
    }
  }
}

// From kneser_ney_reference.py, which computes with exact fractions and dictionaries.
TEST(KneserNey, IsWhatAnotherImplementationGives) {
  const Ids train = reference_tokens(400, 12, 1);
  const KneserNey two(train, 12, 2), three(train, 12, 3);
  EXPECT_NEAR(p(two, {1}, 0), 0.12792457616370018, 1e-14);
  EXPECT_NEAR(p(two, {9}, 7), 0.018782677320706324, 1e-14);
  EXPECT_NEAR(p(two, {3, 0}, 5), 0.19917673329925475, 1e-14);  // only the last token counts
  EXPECT_NEAR(p(three, {1, 2}, 0), 0.20342307902858978, 1e-14);
  EXPECT_NEAR(p(three, {0, 0}, 3), 0.06543936369745325, 1e-14);
  EXPECT_NEAR(p(three, {11, 10}, 11), 0.01287690567569919, 1e-14);
  EXPECT_NEAR(p(three, {2}, 2), 0.07577926476763826, 1e-14);

  const Baselines b = baselines(train, reference_tokens(60, 12, 99), 12);
  EXPECT_NEAR(b.bigram, 2.530861337621440, 1e-13);
  EXPECT_NEAR(b.trigram, 2.685222966342366, 1e-13);
}

TEST(KneserNey, TakesTheLargestTokensThereAre) {
  constexpr std::int32_t largest = (1 << 21) - 1;
  const KneserNey model(Ids{largest, largest, 0, largest, largest, 0}, largest + 1, 3);
  EXPECT_GT(p(model, {largest, largest}, 0), 0.5);
  EXPECT_LT(p(model, {largest, largest}, largest), 0.5);
}

TEST(KneserNey, RefusesWhatItCannotCount) {
  EXPECT_EQ(test::error_text([] { KneserNey(Ids{0}, 3, 4); }),
            "[kneser_ney] order 4 with 3 tokens; the order is 2 or 3, the tokens 1 to 2097152");
  EXPECT_EQ(test::error_text([] {
              KneserNey(Ids{0, 3}, 3, 2);
            }),
            "[kneser_ney] a token is outside of 0 … 2; encode the text with the same tokenizer");
}

// A text in which each token follows from the one before costs nothing to a bigram and ln V to a unigram.
TEST(Baselines, SeeTheStructureThatTheyCanSee) {
  Ids train(4000), validation(400);
  for (std::size_t i = 0; i < train.size(); ++i) train[i] = static_cast<std::int32_t>(i % 7);
  for (std::size_t i = 0; i < validation.size(); ++i) validation[i] = static_cast<std::int32_t>(i % 7);
  const Baselines b = baselines(train, validation, 7);
  EXPECT_NEAR(b.unigram, std::log(7.0), 1e-3);
  EXPECT_LT(b.bigram, 0.01);
  EXPECT_LT(b.trigram, 0.01);
}

}  // namespace
}  // namespace plumb
