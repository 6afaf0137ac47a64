// Interpolated Kneser-Ney n-grams: what counting can do with one or two tokens of context.
//
//   p(w | h) = max(c(h w) - D, 0) / c(h .) + D |{w : c(h w) > 0}| / c(h .) * p(w | h without its first token)
//
// The highest order counts occurrences; a lower order counts the different tokens seen before its n-gram.
// Below one token stands the uniform distribution, so no probability is 0; a context never seen gives the
// next lower order. Each order has one discount D = n1 / (n1 + 2 n2), with n1 and n2 the numbers of its
// n-grams counted once and twice (Ney, Essen and Kneser, "On structuring probabilistic dependences in
// stochastic language modelling", 1994; the interpolated form is that of Chen and Goodman, "An empirical
// study of smoothing techniques for language modeling", 1999). Where n1 or n2 is 0 the estimate means nothing
// and D is 1/2.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace plumb {

class KneserNey {
 public:
  /// `order` is 2 (bigram) or 3 (trigram). Tokens are in [0, vocab_size), vocab_size at most 2^21; fail()
  /// otherwise. Time n log n and about 40 bytes a training token at the most.
  KneserNey(std::span<const std::int32_t> train, std::int64_t vocab_size, int order);

  /// p(word | context), whose last order - 1 tokens count. A shorter context starts at its own order.
  double probability(std::span<const std::int32_t> context, std::int32_t word) const;

 private:
  // The n-grams of one order as sorted packed keys, the last token lowest: those with one context are
  // neighbours.
  struct Level {
    std::vector<std::uint64_t> keys;
    std::vector<std::int64_t> up_to;  // up_to[i]: sum of the counts of keys 0 … i - 1
    double discount = 0.5;
  };
  static Level level_of(std::vector<std::uint64_t> keys);

  std::vector<Level> levels_;  // [number of context tokens]
  double uniform_;
};

}  // namespace plumb
