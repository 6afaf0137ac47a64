// Where a neuron fires, in words: the plain rule that says it best, with how often it is right.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plumb/data/tokenizer.h"

namespace plumb {

/// A position of a sequence: its token, and that before it (-1: none).
struct TokenPlace {
  std::int32_t token = 0, before = -1;
  std::int64_t position = 0;
  bool held_out = false;  // rules are chosen on the others and measured on these
};

/// `words`: "on 'e'", "after line ends", "on digits", "late in the sequence". Of the places that were held
/// out: precision, the share of firings at which the rule holds; recall, the share of places where it holds
/// at which the neuron fires; base, the share of places where it holds.
struct FiringRule {
  enum class Kind : std::uint8_t { on_token, after_token, on_class, after_class, position };
  Kind kind = Kind::on_token;
  std::string words;
  double precision = 0, recall = 0, base = 0;
  /// How far the precision lies from that of a rule that says nothing of the neuron, 0, to 1.
  double lift() const { return (precision - base) / (1 - base); }
};
constexpr std::string_view firing_rule_kinds[] = {"on a token", "after a token", "on a kind of character",
                                                  "after a kind of character", "by position"};

/// All rules, ready to be held against many neurons.
class FiringRules {
 public:
  /// `block`: positions of a sequence.
  FiringRules(std::vector<TokenPlace> places, const CharTokenizer&, std::int64_t block);

  /// The rule with the highest F1 score (harmonic mean of precision and recall) of those with enough lift
  /// and recall; chosen where places are not held out, and dropped when it has too little of one where they
  /// are. Nothing also when the neuron fires at fewer than `least_firings` places of either part. `fires`:
  /// one for each place.
  std::optional<FiringRule> best(const std::vector<bool>& fires) const;

  static constexpr std::int64_t least_firings = 5;
  static constexpr double least_lift = 0.5, least_recall = 0.1;

 private:
  struct Rule {
    FiringRule::Kind kind;
    std::string words;
    std::int64_t holds[2] = {0, 0};  // places, by held_out
  };
  void build(const CharTokenizer&);
  template <class F>
  void each_rule(const TokenPlace&, const F& f) const;

  std::vector<TokenPlace> places_;
  std::int64_t vocab_, block_, n_[2] = {0, 0};
  std::vector<Rule> rules_;
  std::vector<std::int32_t> class_;  // of a token
  std::vector<bool> vowel_, opening_;
};

}  // namespace plumb
