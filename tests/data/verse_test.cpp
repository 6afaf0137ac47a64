// The model behind the corpus `embedded`, its filter, and the corpus.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <vector>

#include "plumb/data/baselines.h"
#include "plumb/data/batches.h"
#include "plumb/data/embedded.h"
#include "plumb/data/tokenizer.h"
#include "plumb/data/verse_filter.h"
#include "plumb/data/verse_model.h"
#include "tests/support/error_text.h"

namespace plumb {
namespace {

using test::error_text;
using Symbols = std::vector<std::int32_t>;

// Small enough to list every latent path.
VerseSpec tiny() {
  return {.characters = 6,
          .zipf_offset = 1,
          .topics = 2,
          .topic_boost = 5,
          .word_classes = 3,
          .followers = 2,
          .word_share = 0.7,
          .rhymes = 2,
          .line_lengths = {1, 3}};
}

// A complete state: everything that the model's next step depends on, the first character of a word included.
struct Full {
  std::int32_t z, f;
  std::size_t place;
  std::int32_t rhyme, first;  // -1: none
  auto operator<=>(const Full&) const = default;
};
using Law = std::map<Full, double>;

// p(x | state), from the story at the head of verse_model.h and nothing of the filter.
double emits(const VerseModel& m, const Full& s, std::int32_t x) {
  const Slot slot = m.poem(s.f)[s.place];
  if (slot == Slot::newline) return x == m.newline();
  if (slot == Slot::comma) return x == m.comma();
  if (slot == Slot::stop) return x == m.stop();
  if (x >= m.spec().characters) return 0;
  if (slot == Slot::word_second)
    return m.spec().word_share * m.follower(m.word_class(s.first), x) +
           (1 - m.spec().word_share) * m.topic(s.z, x);
  if (slot != Slot::follows_rhyme) return m.topic(s.z, x);
  double all = 0;
  for (std::int32_t c = 0; c < m.spec().characters; ++c)
    if (m.rhyme(c) == s.rhyme) all += m.topic(s.z, c);
  return m.rhyme(x) == s.rhyme ? m.topic(s.z, x) / all : 0;
}

// Where it goes after x, each with its probability.
std::vector<std::pair<Full, double>> goes(const VerseModel& m, Full s, std::int32_t x) {
  const auto slots = m.poem(s.f);
  if (slots[s.place] == Slot::opens_rhyme) s.rhyme = m.rhyme(x);
  s.first = slots[s.place] == Slot::word_first ? x : -1;
  if (++s.place < slots.size()) return {{s, 1.0}};
  std::vector<std::pair<Full, double>> next;
  const auto forms = static_cast<std::int32_t>(m.spec().line_lengths.size());
  for (std::int32_t z = 0; z < m.spec().topics; ++z)
    for (std::int32_t f = 0; f < forms; ++f)
      next.push_back({{z, f, 0, -1, -1}, 1.0 / (m.spec().topics * forms)});
  return next;
}

Law step(const VerseModel& m, const Law& law) {
  Law next;
  for (const auto& [s, weight] : law)
    for (std::int32_t x = 0; x < m.symbols(); ++x)
      if (const double p = emits(m, s, x); p > 0)
        for (const auto& [to, share] : goes(m, s, x)) next[to] += weight * p * share;
  return next;
}

// The law of the state at a random offset of an endless text, by its definition as a time average: the laws
// at 0, 1, 2, … steps after a poem's beginning, averaged until they stop changing.
Law stationary(const VerseModel& m) {
  Law law;
  for (const auto& [s, share] : goes(m, {0, 0, m.poem(0).size() - 1, 0, -1}, m.newline())) law[s] = share;
  // Poems are 10 and 18 long: both even, so the laws alternate for ever and two neighbours must be averaged.
  for (int i = 0; i < 4000; ++i) law = step(m, law);
  Law both = step(m, law);
  for (auto& [s, weight] : both) weight /= 2;
  for (const auto& [s, weight] : law) both[s] += weight / 2;
  return both;
}

double all_paths(const VerseModel& m, const Full& s, const Symbols& text, std::size_t at) {
  if (at == text.size()) return 1;
  const double p = emits(m, s, text[at]);
  if (p == 0) return 0;
  double sum = 0;
  for (const auto& [to, share] : goes(m, s, text[at])) sum += share * all_paths(m, to, text, at + 1);
  return p * sum;
}

double all_paths(const VerseModel& m, const Law& start, const Symbols& text) {
  double sum = 0;
  for (const auto& [s, weight] : start) sum += weight * all_paths(m, s, text, 0);
  return sum;
}

TEST(VerseFilter, IsTheSumOverAllLatentPaths) {
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    const VerseModel model(tiny(), seed);
    const Law start = stationary(model);
    const Symbols text = model.write(400);
    VerseFilter filter(model);
    for (std::size_t begin = 0; begin < 60; ++begin) {
      filter.reset();
      double together = 1;
      Symbols window;
      for (std::size_t i = begin; i < begin + 24; ++i) {
        window.push_back(text[i]);
        together *= filter.observe(text[i]);
        const double expected = all_paths(model, start, window);
        ASSERT_NEAR(together / expected, 1, 1e-10) << "seed " << seed << ", " << begin << " … " << i;
      }
    }
  }
}

TEST(VerseFilter, StartsFromALawThatAStepDoesNotChange) {
  const VerseModel model(tiny(), 4);
  const Law law = stationary(model);
  const Law next = step(model, law);
  ASSERT_EQ(law.size(), next.size());
  for (const auto& [s, weight] : law) EXPECT_NEAR(next.at(s), weight, 1e-12);
  // So the second symbol of a window, the first one unseen, is distributed as the first.
  VerseFilter filter(model);
  for (std::int32_t x = 0; x < model.symbols(); ++x) {
    double second = 0;
    for (std::int32_t first = 0; first < model.symbols(); ++first) {
      filter.reset();
      const double p = filter.observe(first);
      second += p * filter.probability(x);
    }
    filter.reset();
    EXPECT_NEAR(second, filter.probability(x), 1e-12);
  }
}

TEST(VerseFilter, SumsToOneAfterEveryPrefix) {
  for (const auto& spec : {tiny(), VerseSpec{}}) {
    const VerseModel model(spec, 5);
    const Symbols text = model.write(200);
    VerseFilter filter(model);
    for (std::size_t i = 0; i < 200; ++i) {
      if (i == 97) filter.reset();
      double sum = 0;
      for (std::int32_t x = 0; x < model.symbols(); ++x) sum += filter.probability(x);
      ASSERT_NEAR(sum, 1, 1e-12) << "before symbol " << i;
      const double p = filter.probability(text[i]);
      ASSERT_EQ(filter.observe(text[i]), p);
    }
  }
}

TEST(VerseFilter, GivesNothingToWhatCannotBe) {
  const VerseModel model(tiny(), 1);
  VerseFilter filter(model);
  EXPECT_GT(filter.observe(model.comma()), 0);
  EXPECT_EQ(filter.observe(model.comma()), 0);
  EXPECT_EQ(filter.observe(model.newline()), 0);
  EXPECT_EQ(error_text([&] { verse_floor(model, U"，，", 8); }),
            "the verse model cannot have written character 1 of the text; give a text that it wrote");
  EXPECT_EQ(error_text([&] { verse_floor(model, U"，\nx", 8); }),
            "character 2 of the text, U+0078, is none of the verse model's; give a text that it wrote");
  EXPECT_EQ(error_text([&] { verse_floor(model, U"，", 8); }),
            "a floor needs 2 characters or more, not 1; use a longer text or a smaller data.split");
  EXPECT_EQ(error_text([&] { verse_floor(model, U"，\n", 0); }),
            "model.block_size is 0; set it to 1 or more");
}

// The text is drawn from the filter's probabilities: -ln p is on average the entropy of what the filter
// predicted. The differences are uncorrelated, so their sum over its standard deviation is about normal.
TEST(VerseFilter, PredictsTheTextThatIsWritten) {
  const VerseModel model(tiny(), 7);
  VerseFilter filter(model);
  double sum = 0, variance = 0;
  for (const std::int32_t symbol : model.write(20000)) {
    double entropy = 0, square = 0;
    for (std::int32_t x = 0; x < model.symbols(); ++x)
      if (const double p = filter.probability(x); p > 0) {
        entropy -= p * std::log(p);
        square += p * std::log(p) * std::log(p);
      }
    variance += square - entropy * entropy;
    sum += -std::log(filter.observe(symbol)) - entropy;
  }
  EXPECT_LT(std::abs(sum) / std::sqrt(variance), 4);
}

// Blocks: the floor must be the mean over exactly the pairs that validation scores.
TEST(VerseFloor, IsTheMeanOverTheTargetsOfBlocks) {
  const VerseModel model(tiny(), 6);
  const Law start = stationary(model);
  const std::u32string text = model.text(100).substr(3, 42);
  const Symbols symbols = model.symbols_of(text);
  const Blocks blocks(symbols, 8);
  Symbols x(static_cast<std::size_t>(blocks.size()) * 8), y(x.size());
  blocks.fill(0, x, y);
  double nats = 0;
  for (std::size_t row = 0; row < x.size(); row += 8)
    for (std::size_t i = 0; i < 8 && y[row + i] >= 0; ++i) {
      Symbols seen(x.begin() + static_cast<std::ptrdiff_t>(row),
                   x.begin() + static_cast<std::ptrdiff_t>(row + i + 1));
      const double before = all_paths(model, start, seen);
      seen.push_back(y[row + i]);
      nats -= std::log(all_paths(model, start, seen) / before);
    }
  EXPECT_NEAR(verse_floor(model, text, 8), nats / static_cast<double>(blocks.targets()), 1e-10);
}

TEST(VerseModel, SaysWhatItsSpecBreaks) {
  const auto refused = [](auto change) {
    VerseSpec spec = tiny();
    change(spec);
    return error_text([&] { VerseModel(spec, 1); });
  };
  const std::string sizes =
      "a verse model needs 1 or more topics, word classes, followers and rhymes, and between as many "
      "characters as "
      "the largest of these and 1235; correct its spec";
  EXPECT_EQ(refused([](VerseSpec& s) { s.rhymes = 0; }), sizes);
  EXPECT_EQ(refused([](VerseSpec& s) { s.topics = 7; }), sizes);
  EXPECT_EQ(refused([](VerseSpec& s) { s.characters = 1236; }), sizes);
  EXPECT_EQ(refused([](VerseSpec& s) { s.word_share = 1.5; }),
            "a verse model's zipf_offset must be 0 or more, its topic_boost above 0 and its word_share in "
            "[0, 1], not "
            "1, 5 and 1.5");
  EXPECT_EQ(refused([](VerseSpec& s) { s.line_lengths = {4}; }),
            "a verse model's line lengths must be odd numbers, one or more; correct its spec");
}

class Embedded : public testing::Test {
 protected:
  static const Corpus& corpus() {
    static const Corpus kept = embedded_corpus();
    return kept;
  }
  static std::u32string_view validation() {
    const std::u32string_view text = corpus().text;
    return text.substr(text.size() * 9 / 10);
  }
};

TEST_F(Embedded, IsTheSameTextForTheSameSeed) {
  const Corpus again = embedded_corpus(), other = embedded_corpus(2);
  EXPECT_EQ(again.text, corpus().text);
  EXPECT_EQ(again.sha256, corpus().sha256);
  EXPECT_NE(other.text, corpus().text);
  EXPECT_NE(other.sha256, corpus().sha256);
  // What verse_reference.py writes, which shares no code with the model: the text must never change.
  EXPECT_EQ(corpus().sha256, "23a563e15f01280fdbe69293cb6ad98895da6b825deff1db060d6b8d10b3409e");
}

TEST_F(Embedded, IsLosslessWith1200TokensAndHasTheIntendedMarginal) {
  EXPECT_NEAR(static_cast<double>(corpus().text.size()), 250000, 50);  // whole poems, of 34 at most
  const std::set<char32_t> symbols(corpus().text.begin(), corpus().text.end());
  EXPECT_EQ(symbols.size(), 1183U);  // every character, newline, comma and stop
  const CharTokenizer tokenizer(corpus().text, 1200);
  EXPECT_EQ(tokenizer.coverage(corpus().text), 1);
  const auto ids = tokenizer.encode(corpus().text);
  const Split split = split_tokens(ids, 0.9, 64);
  const Baselines b = baselines(split.train, split.validation, tokenizer.vocab_size());
  EXPECT_GT(b.unigram, 5.5);
  EXPECT_LT(b.unigram, 5.7);
  // The order that theory asks for: more context, fewer nats; no count beats the floor.
  const double floor = corpus().floor(validation(), 64), rate = corpus().entropy_rate(validation());
  EXPECT_LT(b.bigram, b.unigram);
  EXPECT_LT(b.trigram, b.bigram);
  EXPECT_LT(floor, b.trigram);
  EXPECT_LT(rate, floor);
}

// verse_reference.py's floors on the same 2,560 targets.
TEST_F(Embedded, HasTheFloorThatAnotherImplementationGives) {
  EXPECT_NEAR(corpus().floor(validation().substr(0, 2561), 8), 3.963890335703, 1e-9);
  EXPECT_NEAR(corpus().floor(validation().substr(0, 2561), 64), 3.388920271830, 1e-9);
}

TEST_F(Embedded, CostsLessWithMoreContext) {
  double shorter = corpus().floor(validation(), 1);
  for (const std::int64_t block : {2, 4, 8, 16, 32, 64, 128, 256}) {
    const double longer = corpus().floor(validation(), block);
    EXPECT_LT(longer, shorter) << "block " << block;
    shorter = longer;
  }
}

TEST_F(Embedded, RhymesInEveryPoem) {
  const VerseModel model(VerseSpec{}, embedded_seed);
  const std::u32string& text = corpus().text;
  std::vector<std::u32string> lines(1);
  for (const char32_t c : text)
    if (c == U'\n')
      lines.emplace_back();
    else
      lines.back() += c;
  lines.pop_back();  // the text ends with a newline
  ASSERT_EQ(lines.size() % 4, 0U);
  std::size_t third_rhymes = 0;
  for (std::size_t i = 0; i < lines.size(); i += 4) {
    ASSERT_EQ(lines[i + 1].back(), U'，');
    ASSERT_EQ(lines[i + 3].back(), U'。');
    lines[i + 1].pop_back();
    lines[i + 3].pop_back();
    const auto rhyme = [&](std::size_t line) {
      return model.rhyme(model.symbols_of(lines[i + line].substr(lines[i + line].size() - 1))[0]);
    };
    for (std::size_t line = 0; line < 4; ++line) {
      ASSERT_TRUE(lines[i].size() == 5 || lines[i].size() == 7);
      ASSERT_EQ(lines[i + line].size(), lines[i].size());
    }
    ASSERT_EQ(rhyme(1), rhyme(0));
    ASSERT_EQ(rhyme(3), rhyme(0));
    third_rhymes += rhyme(2) == rhyme(0);
  }
  // Line 3 is free: with 24 classes it rhymes by chance only.
  EXPECT_LT(static_cast<double>(third_rhymes) / static_cast<double>(lines.size() / 4), 0.15);
}

}  // namespace
}  // namespace plumb
