// The exact forward filter of a VerseModel: p(next symbol | the symbols seen since the window's start).
//
// The latent state is (topic, form, place in the poem, the poem's rhyme class once line 1 has ended). A
// window may begin anywhere, so the filter starts from the state's stationary distribution: a poem is in
// force at a random offset with a probability proportional to its length, its place is then uniform, its
// topic uniform, its rhyme distributed as topic(z) makes it (and, until the window shows an ending,
// independent of all that was seen given the topic: one state with "any rhyme" stands for all of them). Each
// symbol multiplies every state's weight by the probability that the state emits it and moves the state on;
// the sum is the symbol's conditional probability (Rabiner 1989, the scaled forward recursion).
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "plumb/data/verse_model.h"

namespace plumb {

class VerseFilter {
 public:
  /// Borrows `model`.
  explicit VerseFilter(const VerseModel& model);

  /// Forgets all symbols: the next one is the first of a window.
  void reset();

  /// p(symbol | seen since the reset); over all symbols these sum to 1.
  double probability(std::int32_t symbol) const;

  /// The same, and takes the symbol as seen. After a symbol of probability 0 everything has probability 0.
  double observe(std::int32_t symbol);

 private:
  static constexpr std::int32_t any_rhyme = -1;
  static constexpr std::int32_t unseen = -1;
  struct State {
    std::int32_t topic, form, place, rhyme;
    double weight;
  };
  double emission(const State& s, std::int32_t symbol) const;
  double rhyme_mass(std::int32_t topic, std::int32_t rhyme) const;

  const VerseModel* model_;
  std::vector<double> rhyme_mass_;  // [topic, rhyme]: probability that a character of topic(z) has the rhyme
  std::vector<double> any_second_;  // [topic, character]: of a word's second character, its first unseen
  std::vector<State> stationary_, states_, next_;
  std::int32_t previous_ = unseen;
};

/// Mean of -ln p over the targets of non-overlapping blocks (see Blocks), each predicted from the inputs of
/// its own block only: nats a token that no predictor can beat on average. bad_input for block_size < 1,
/// fewer than 2 characters, and a text that the model cannot have written.
double verse_floor(const VerseModel& model, std::u32string_view text, std::int64_t block_size);

/// The same with one block as long as the text: an estimate, on this text, of the entropy rate in nats a
/// token.
double verse_entropy_rate(const VerseModel& model, std::u32string_view text);

}  // namespace plumb
