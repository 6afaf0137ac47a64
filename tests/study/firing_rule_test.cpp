// Rules for neurons whose firing is made up, with precision and recall counted by hand.
#include "plumb/study/firing_rule.h"

#include <gtest/gtest.h>

#include <functional>

#include "plumb/base/rng.h"
#include "plumb/base/text.h"

namespace plumb::test {
namespace {

// 40 sequences of 10: the second half is held out. Of each, "Ab7. cd\nEf" where position 9 is one of e, f, g.
struct Made {
  CharTokenizer tokenizer{U"Ab7. cd\nEfeg", 50};
  std::vector<TokenPlace> places;
  std::u32string text;
  Made() {
    for (int s = 0; s < 40; ++s) text += std::u32string(U"Ab7. cd\nE") + U"efg"[s % 3];
    const auto ids = tokenizer.encode(text);
    for (std::size_t i = 0; i < ids.size(); ++i)
      places.push_back(
          {ids[i], i % 10 > 0 ? ids[i - 1] : -1, static_cast<std::int64_t>(i % 10), i >= ids.size() / 2});
  }
  std::optional<FiringRule> rule(const std::function<bool(std::size_t)>& fires) const {
    std::vector<bool> f;
    for (std::size_t i = 0; i < places.size(); ++i) f.push_back(fires(i));
    return FiringRules(places, tokenizer, 10).best(f);
  }
};

TEST(FiringRule, NamesTokensAndWhatStandsBefore) {
  const Made m;
  const auto on = m.rule([&](std::size_t i) { return m.text[i] == U'c'; });
  ASSERT_TRUE(on);
  EXPECT_EQ(on->words, "on 'c'");
  EXPECT_EQ(on->precision, 1);
  EXPECT_EQ(on->recall, 1);
  EXPECT_DOUBLE_EQ(on->base, 0.1);
  // 'E' always stands behind a line end, too, but the token itself is named before what stands there.
  EXPECT_EQ(m.rule([&](std::size_t i) { return m.text[i] == U'E'; })->words, "on 'E'");
  // What stands behind 'E' differs.
  EXPECT_EQ(m.rule([&](std::size_t i) { return i % 10 == 9; })->words, "after 'E'");
  EXPECT_EQ(m.rule([&](std::size_t i) { return m.text[i] == U'\n'; })->words, "on line ends");
}

TEST(FiringRule, NamesKindsAndPositions) {
  const Made m;
  EXPECT_EQ(m.rule([&](std::size_t i) { return m.text[i] == U'A' || m.text[i] == U'E'; })->words,
            "on upper-case letters");
  EXPECT_EQ(m.rule([](std::size_t i) { return i % 10 >= 5; })->words, "late in the sequence");
  EXPECT_EQ(m.rule([](std::size_t i) { return i % 10 < 5; })->words, "early in the sequence");
  // Vowels of the text: A, E and every third sequence's e.
  EXPECT_EQ(m.rule([&](std::size_t i) {
               return m.text[i] == U'A' || m.text[i] == U'E' || m.text[i] == U'e';
             })->words,
            "on vowels");
}

TEST(FiringRule, NamesOpeningBracketsAndPlaces) {
  const CharTokenizer t(U"a([)b", 9);
  std::u32string text;
  for (int s = 0; s < 40; ++s) text += std::u32string(U"a) b") + (s % 2 == 0 ? U'(' : U'[') + U"ba) ";
  const auto ids = t.encode(text);
  std::vector<TokenPlace> places;
  std::vector<bool> opening, quarter, end, start;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::size_t at = i % 9;
    places.push_back({ids[i], at > 0 ? ids[i - 1] : -1, static_cast<std::int64_t>(at), i >= ids.size() / 2});
    opening.push_back(at == 4), quarter.push_back(at < 3), end.push_back(at >= 7), start.push_back(at == 0);
  }
  const FiringRules rules(places, t, 9);
  EXPECT_EQ(rules.best(opening)->words, "on opening brackets");
  EXPECT_EQ(rules.best(quarter)->words, "in the first quarter of the sequence");
  EXPECT_EQ(rules.best(end)->words, "in the last quarter of the sequence");
  EXPECT_EQ(rules.best(start)->words, "at the first position");
}

TEST(FiringRule, CountsWhereItWasNotChosen) {
  const Made m;
  // On 'c' everywhere in the first half; in the second half on every other one of 20, and on five of the b.
  const auto fires = [&](std::size_t i) {
    const std::size_t sequence = i / 10;
    if (sequence < 20) return m.text[i] == U'c';
    return m.text[i] == U'c' ? sequence % 2 == 0 : m.text[i] == U'b' && sequence % 4 == 1;
  };
  const auto r = m.rule(fires);
  ASSERT_TRUE(r);
  EXPECT_EQ(r->words, "on 'c'");
  EXPECT_DOUBLE_EQ(r->precision, 10.0 / 15);
  EXPECT_DOUBLE_EQ(r->recall, 10.0 / 20);
  EXPECT_DOUBLE_EQ(r->lift(), (10.0 / 15 - 0.1) / 0.9);
}

TEST(FiringRule, IsSilentWhereNothingIsPlain) {
  const Made m;
  const Stream s = stream(1, "fires");
  EXPECT_FALSE(m.rule([&](std::size_t i) { return s.uniform(0, 0, i) < 0.2; }));
  EXPECT_FALSE(m.rule([](std::size_t) { return true; }));  // what always holds says nothing
  EXPECT_FALSE(m.rule([](std::size_t) { return false; }));
  EXPECT_FALSE(m.rule([](std::size_t i) { return i % 10 == 3 && i < 40; }));  // four firings
  // The rule of the first half does not hold in the second.
  EXPECT_FALSE(m.rule([&](std::size_t i) { return m.text[i] == (i < 200 ? U'c' : U'b'); }));
}

}  // namespace
}  // namespace plumb::test
