#include "plumb/data/verse_model.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "plumb/base/error.h"
#include "plumb/base/rng.h"

namespace plumb {
namespace {

// Characters are spread over the block CJK Unified Ideographs (U+4E00 … U+9FFF), so that neighbours look
// unlike.
constexpr char32_t first_code_point = 0x4e00, code_point_step = 17;
constexpr std::int32_t most_characters = (0x9fff - 0x4e00) / 17 + 1;
constexpr char32_t comma_code = 0xff0c, stop_code = 0x3002;  // ，。

std::size_t index(std::int32_t i) { return static_cast<std::size_t>(i); }

void check(const VerseSpec& s) {
  const std::int32_t most = std::max({s.topics, s.word_classes, s.followers, s.rhymes});
  const std::int32_t least = std::min({s.topics, s.word_classes, s.followers, s.rhymes});
  if (least < 1 || s.characters < most || s.characters > most_characters)
    bad_input(
        "a verse model needs 1 or more topics, word classes, followers and rhymes, and between as many "
        "characters as the largest of these and {}; correct its spec",
        most_characters);
  if (!(s.zipf_offset >= 0) || !(s.topic_boost > 0) || !(s.word_share >= 0 && s.word_share <= 1))
    bad_input(
        "a verse model's zipf_offset must be 0 or more, its topic_boost above 0 and its word_share in [0, "
        "1], "
        "not {}, {} and {}",
        s.zipf_offset, s.topic_boost, s.word_share);
  const auto& n = s.line_lengths;
  if (n.empty() || std::any_of(n.begin(), n.end(), [](std::int32_t i) { return i < 1 || i % 2 == 0; }))
    bad_input("a verse model's line lengths must be odd numbers, one or more; correct its spec");
}

std::vector<Slot> poem_of(std::int32_t line_length) {
  std::vector<Slot> slots;
  const auto line = [&](Slot ending) {
    for (std::int32_t word = 0; word < line_length / 2; ++word)
      slots.insert(slots.end(), {Slot::word_first, Slot::word_second});
    slots.push_back(ending);
  };
  line(Slot::opens_rhyme);
  slots.push_back(Slot::newline);
  line(Slot::follows_rhyme);
  slots.insert(slots.end(), {Slot::comma, Slot::newline});
  line(Slot::free_ending);
  slots.push_back(Slot::newline);
  line(Slot::follows_rhyme);
  slots.insert(slots.end(), {Slot::stop, Slot::newline});
  return slots;
}

// 0 … n - 1 in a random order (Fisher and Yates).
std::vector<std::int32_t> shuffled(std::int32_t n, const Stream& random) {
  std::vector<std::int32_t> order(index(n));
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i, 0, 0, i)]);
  return order;
}

// Every class has floor or ceil of n / classes members, so that none is empty.
std::vector<std::int32_t> classes_of(std::int32_t n, std::int32_t classes, const Stream& random) {
  std::vector<std::int32_t> members = shuffled(n, random);
  for (std::int32_t& m : members) m %= classes;
  return members;
}

// Where the running sums first exceed u. Rounding may leave the last sum below 1: then it is the last that
// has any probability.
std::int32_t pick(std::span<const double> up_to, double u) {
  auto found = std::upper_bound(up_to.begin(), up_to.end(), u);
  if (found == up_to.end()) found = std::lower_bound(up_to.begin(), up_to.end(), up_to.back());
  return static_cast<std::int32_t>(found - up_to.begin());
}

// Scales the row to sum 1 and gives its running sums. Only sums, products and quotients: the text must be the
// same with every C library.
void normalise(std::span<double> row, std::span<double> up_to) {
  const double sum = std::accumulate(row.begin(), row.end(), 0.0);
  double so_far = 0;
  for (std::size_t i = 0; i < row.size(); ++i) {
    row[i] /= sum;
    up_to[i] = so_far += row[i];
  }
}

}  // namespace

VerseModel::VerseModel(VerseSpec spec, std::uint64_t seed) : spec_(std::move(spec)), seed_(seed) {
  check(spec_);
  for (const std::int32_t length : spec_.line_lengths) poems_.push_back(poem_of(length));
  draw_tables();
}

void VerseModel::draw_tables() {
  const auto n = spec_.characters;
  const auto random = [&](std::string_view what) { return stream(seed_, what); };
  const auto rank = shuffled(n, random("verse.rank"));
  const auto home = classes_of(n, spec_.topics, random("verse.topic"));
  word_class_ = classes_of(n, spec_.word_classes, random("verse.word_class"));
  rhyme_ = classes_of(n, spec_.rhymes, random("verse.rhyme"));
  rhyme_words_.resize(index(spec_.rhymes));
  for (std::int32_t c = 0; c < n; ++c) rhyme_words_[index(rhyme_[index(c)])].push_back(c);

  std::vector<double> zipf(index(n)), zipf_up_to(index(n));
  for (std::size_t c = 0; c < zipf.size(); ++c) zipf[c] = 1 / (rank[c] + 1 + spec_.zipf_offset);
  normalise(zipf, zipf_up_to);

  const std::size_t width = zipf.size();
  topic_.resize(index(spec_.topics) * width);
  topic_up_to_.resize(topic_.size());
  for (std::int32_t z = 0; z < spec_.topics; ++z) {
    for (std::int32_t c = 0; c < n; ++c)
      topic_[at(z, c)] = zipf[index(c)] * (home[index(c)] == z ? spec_.topic_boost : 1);
    normalise(std::span(topic_).subspan(at(z, 0), width), std::span(topic_up_to_).subspan(at(z, 0), width));
  }

  follower_.resize(index(spec_.word_classes) * width);
  follower_up_to_.resize(follower_.size());
  const Stream draws = random("verse.followers");
  for (std::int32_t k = 0; k < spec_.word_classes; ++k) {
    std::uint64_t draw = 0;
    for (std::int32_t i = 0; i < spec_.followers;) {
      double& weight = follower_[at(k, pick(zipf_up_to, draws.uniform(0, index(k), draw++)))];
      if (weight > 0) continue;  // drawn before
      weight = 1.0 / (i + 3);
      ++i;
    }
    normalise(std::span(follower_).subspan(at(k, 0), width),
              std::span(follower_up_to_).subspan(at(k, 0), width));
  }
}

char32_t VerseModel::code_point(std::int32_t symbol) const {
  if (symbol == newline()) return U'\n';
  if (symbol == comma()) return comma_code;
  if (symbol == stop()) return stop_code;
  return first_code_point + static_cast<char32_t>(symbol) * code_point_step;
}

std::vector<std::int32_t> VerseModel::symbols_of(std::u32string_view text) const {
  std::vector<std::int32_t> symbols;
  symbols.reserve(text.size());
  for (const char32_t code : text) {
    const char32_t offset = code - first_code_point;  // unsigned: a code below the first is far too large
    if (code == U'\n')
      symbols.push_back(newline());
    else if (code == comma_code)
      symbols.push_back(comma());
    else if (code == stop_code)
      symbols.push_back(stop());
    else if (offset % code_point_step == 0 &&
             offset / code_point_step < static_cast<char32_t>(spec_.characters))
      symbols.push_back(static_cast<std::int32_t>(offset / code_point_step));
    else
      bad_input("character {} of the text, U+{:04X}, is none of the verse model's; give a text that it wrote",
                symbols.size(), static_cast<std::uint32_t>(code));
  }
  return symbols;
}

std::vector<std::int32_t> VerseModel::write(std::int64_t length) const {
  const Stream random = stream(seed_, "verse.text");
  const std::size_t width = index(spec_.characters);
  std::vector<std::int32_t> symbols;
  for (std::uint64_t poem = 0; static_cast<std::int64_t>(symbols.size()) < length; ++poem) {
    const auto z =
        static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(spec_.topics), poem, 0, 0));
    const auto& slots = poems_[random.below(poems_.size(), poem, 0, 1)];
    const auto from_topic = std::span(topic_up_to_).subspan(at(z, 0), width);
    std::int32_t poem_rhyme = 0;
    for (std::size_t i = 0; i < slots.size(); ++i) {
      const double u = random.uniform(poem, i + 1, 0);
      switch (slots[i]) {
        case Slot::word_second:
          symbols.push_back(
              random.uniform(poem, i + 1, 1) < spec_.word_share
                  ? pick(std::span(follower_up_to_).subspan(at(word_class(symbols.back()), 0), width), u)
                  : pick(from_topic, u));
          break;
        case Slot::follows_rhyme: {
          const auto& words = rhyme_words_[index(poem_rhyme)];
          std::vector<double> up_to;
          for (const std::int32_t c : words)
            up_to.push_back((up_to.empty() ? 0.0 : up_to.back()) + topic(z, c));
          symbols.push_back(words[index(pick(up_to, u * up_to.back()))]);
          break;
        }
        case Slot::comma:
          symbols.push_back(comma());
          break;
        case Slot::stop:
          symbols.push_back(stop());
          break;
        case Slot::newline:
          symbols.push_back(newline());
          break;
        case Slot::opens_rhyme:
          symbols.push_back(pick(from_topic, u));
          poem_rhyme = rhyme(symbols.back());
          break;
        case Slot::word_first:
        case Slot::free_ending:
          symbols.push_back(pick(from_topic, u));
      }
    }
  }
  return symbols;
}

std::u32string VerseModel::text(std::int64_t length) const {
  std::u32string text;
  for (const std::int32_t symbol : write(length)) text += code_point(symbol);
  return text;
}

}  // namespace plumb
