// What counting would score: no context, one token of it, two.
#pragma once
#include <cstdint>
#include <span>

namespace plumb {

/// Cross-entropy in nats a token over the validation targets (every validation token but the first).
struct Baselines {
  double uniform;  // ln V
  double unigram;  // frequencies of the training tokens, add-one smoothed: p(v) = (count(v) + 1) / (N + V)
  double bigram;   // interpolated Kneser-Ney of the training tokens, one token of context (kneser_ney.h)
  double trigram;  // the same with two; the first target has one token before it and gets the bigram's
};

/// Tokens are in [0, vocab_size); id 0, the unknown, is a token as any other. bad_input when validation has
/// fewer than 2 tokens.
Baselines baselines(std::span<const std::int32_t> train, std::span<const std::int32_t> validation,
                    std::int64_t vocab_size);

}  // namespace plumb
