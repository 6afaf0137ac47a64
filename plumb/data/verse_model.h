// A generative model of short verse whose every conditional probability can be computed.
//
// A poem is a quatrain. It draws a topic z and a line length n (an odd number) uniformly, and nothing else is
// carried from poem to poem. A line is (n - 1) / 2 words of two characters and one ending:
//
//   first of a word   c ~ topic(z)
//   second of a word  c ~ share * followers(class of the first) + (1 - share) * topic(z)
//   ending of line 1  c ~ topic(z); its rhyme class r becomes the poem's
//   ending of 2 and 4 c ~ topic(z) given that its rhyme class is r  (AABA, as a Tang quatrain rhymes)
//   ending of line 3  c ~ topic(z)
//
// Line 2 closes with a comma, line 4 with a full stop, every line with a newline. topic(z) is a
// Zipf-Mandelbrot law (Mandelbrot 1953: 1 / (rank + offset)) in which the characters at home in z weigh
// `topic_boost` times as much. Topic, word class and rhyme class of a character and the followers of a word
// class are drawn from `seed`.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace plumb {

/// The sizes of the model; every one at least 1, characters >= topics, word_classes, rhymes and followers.
struct VerseSpec {
  std::int32_t characters = 1180;
  double zipf_offset = 9;
  std::int32_t topics = 12;
  double topic_boost = 30;
  std::int32_t word_classes = 64;
  std::int32_t followers = 16;  // characters that a word class prefers as a word's second
  double word_share = 0.9;      // share of words whose second character is one of them, in [0, 1]
  std::int32_t rhymes = 24;
  std::vector<std::int32_t> line_lengths{5, 7};  // characters a line, each odd
};

/// What stands at one place of a poem.
enum class Slot : std::uint8_t {
  word_first,
  word_second,
  opens_rhyme,
  follows_rhyme,
  free_ending,
  comma,
  stop,
  newline
};

class VerseModel {
 public:
  /// bad_input when the spec breaks its bounds.
  VerseModel(VerseSpec spec, std::uint64_t seed);

  const VerseSpec& spec() const { return spec_; }

  /// Symbols are 0 … symbols() - 1: the characters, then newline, comma and full stop.
  std::int32_t symbols() const { return spec_.characters + 3; }
  std::int32_t newline() const { return spec_.characters; }
  std::int32_t comma() const { return spec_.characters + 1; }
  std::int32_t stop() const { return spec_.characters + 2; }
  char32_t code_point(std::int32_t symbol) const;
  /// bad_input, with its position, for a character that the model does not have.
  std::vector<std::int32_t> symbols_of(std::u32string_view text) const;

  /// The places of a poem with lines of line_lengths[form] characters, in order.
  std::span<const Slot> poem(std::int32_t form) const { return poems_.at(static_cast<std::size_t>(form)); }

  double topic(std::int32_t z, std::int32_t c) const { return topic_[at(z, c)]; }
  double follower(std::int32_t word_class, std::int32_t c) const { return follower_[at(word_class, c)]; }
  std::int32_t word_class(std::int32_t c) const { return word_class_[static_cast<std::size_t>(c)]; }
  std::int32_t rhyme(std::int32_t c) const { return rhyme_[static_cast<std::size_t>(c)]; }

  /// Whole poems, from the first on, until there are at least `length` symbols.
  std::vector<std::int32_t> write(std::int64_t length) const;
  std::u32string text(std::int64_t length) const;

 private:
  std::size_t at(std::int32_t row, std::int32_t c) const {
    return static_cast<std::size_t>(row) * static_cast<std::size_t>(spec_.characters) +
           static_cast<std::size_t>(c);
  }
  void draw_tables();

  VerseSpec spec_;
  std::uint64_t seed_;
  std::vector<std::vector<Slot>> poems_;              // [form]
  std::vector<std::int32_t> word_class_, rhyme_;      // [character]
  std::vector<double> topic_, follower_;              // [topic, character], [word class, character]
  std::vector<double> topic_up_to_, follower_up_to_;  // running sums of the rows above, last one 1 or nearly
  std::vector<std::vector<std::int32_t>> rhyme_words_;  // [rhyme]: its characters
};

}  // namespace plumb
