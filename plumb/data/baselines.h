// What a model that looks at no context would score.
#pragma once
#include <cstdint>
#include <span>

namespace plumb {

/// Cross-entropy in nats a token over the validation targets (every validation token but the first).
struct Baselines {
  double uniform;  // ln V
  double unigram;  // frequencies of the training tokens, add-one smoothed: p(v) = (count(v) + 1) / (N + V)
};

/// Tokens are in [0, vocab_size). bad_input when validation has fewer than 2 tokens.
Baselines baselines(std::span<const std::int32_t> train, std::span<const std::int32_t> validation,
                    std::int64_t vocab_size);

}  // namespace plumb
