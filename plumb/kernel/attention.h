// Causal attention in tiles: forward, backward under it, no T x T tensor. Dao et al. 2022 (arXiv 2205.14135).
#pragma once
#include <cstddef>

#include "plumb/kernel/dropout.h"
#include "plumb/kernel/score_bias.h"

namespace plumb {

struct AttentionShape {
  std::int64_t n_seq = 0;  // sequences in the views below; row = sequence * block + position
  std::int64_t block = 0;  // T, positions a sequence
  std::int64_t n_head = 0, n_kv_head = 0, d_head = 0;  // kv head of head h is h / (n_head / n_kv_head)
  double scale = 1;                                    // multiplies q.k
  double softcap = 0;       // c > 0: scale q.k becomes c tanh(scale q.k / c), before the bias
  std::int64_t window = 0;  // W > 0: position i sees keys i - W + 1 … i only
  Dropout dropout =
      {};  // of the weights: elements of a sample's (H T, T); its first sample is the first sequence

  /// The first key that position i sees.
  std::int64_t first_key(std::int64_t i) const { return window > 0 && i >= window ? i - window + 1 : 0; }
};

/// Scratch that forward and backward need, in elements of R; does not grow with n_seq, and with `block` at
/// most linearly.
template <class R>
std::size_t attention_scratch(const AttentionShape&);

/// o = drop(softmax(cap(scale q k^T) + bias, causal)) v per head; lse and side results are those of the
/// softmax. Cap: Gemma Team 2024, arXiv 2408.00118, section 2; window: Beltagy et al. 2020, arXiv 2004.05150,
/// section 3.1. q (n_seq*T, H*D), k and v (n_seq*T, KV*D): rows may be strided (slices of one fused product); o (n_seq*T, H*D). lse (n_seq*T, H): log Σ exp of each
/// row, kept for backward. Side results, skipped when data == nullptr: entropy (n_seq*T, H): -Σ p ln p in
/// nats (as log Z − Σ p·s); max_logit (n_seq*T, H): largest visible score of the row. A NaN, or a score of
/// +inf, in any visible input reaches the output; a visible score of -inf has weight 0.
template <class R>
void attention_forward(const AttentionShape&, View<const R> q, View<const R> k, View<const R> v,
                       const ScoreBias<R>* bias, View<const R> table, View<R> o, View<R> lse, View<R> entropy,
                       View<R> max_logit, R* scratch);

/// Gradients of sum(o * d_o). Each sink may be empty. dk and dv sum over the heads of a group. d_table: adds
/// always (the caller clears it).
template <class R>
void attention_backward(const AttentionShape&, View<const R> q, View<const R> k, View<const R> v,
                        const ScoreBias<R>* bias, View<const R> table, View<const R> o, View<const R> lse,
                        View<const R> d_o, Sink<R> dq, Sink<R> dk, Sink<R> dv, View<R> d_table, R* scratch);

// Instantiated for double (plain loops, the twin) and float (tiles with SIMD). The plain twin in float, for
// tests:
namespace plain {
template <class R>
void attention_forward(const AttentionShape&, View<const R> q, View<const R> k, View<const R> v,
                       const ScoreBias<R>* bias, View<const R> table, View<R> o, View<R> lse, View<R> entropy,
                       View<R> max_logit, R* scratch);
template <class R>
void attention_backward(const AttentionShape&, View<const R> q, View<const R> k, View<const R> v,
                        const ScoreBias<R>* bias, View<const R> table, View<const R> o, View<const R> lse,
                        View<const R> d_o, Sink<R> dq, Sink<R> dk, Sink<R> dv, View<R> d_table, R* scratch);
}  // namespace plain

}  // namespace plumb
