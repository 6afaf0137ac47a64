// The two ends of the decoder: tokens to vectors, logits to loss.
#pragma once
#include "plumb/kernel/rows.h"
#include "plumb/plan/builder.h"
#include "plumb/spec/spec.h"

namespace plumb {

/// Rows of `table` (V, C) by the shard's token ids: (B, T, C).
template <class R>
Value embed_tokens(Builder<R>&, Value table, std::int64_t block);

/// y = cap tanh(x / cap). Gemma Team 2024, arXiv 2408.00118, section 2.
template <class R>
Value softcapped(Builder<R>&, Value x, double cap, const std::string& name);

/// Softmax cross-entropy of logits (B, T, V) against the shard's targets: the loss. Stores a log-sum-exp per
/// row, no probabilities. `terms` are minimised with it, and told apart from it (LossResult).
template <class R>
void token_loss(Builder<R>&, Value logits, std::int64_t ignore_index, const LossTerms& terms = {});

}  // namespace plumb
