// Attention sub-layers.
#pragma once
#include <algorithm>

#include "plumb/kernel/rotation.h"
#include "plumb/kernel/score_bias.h"
#include "plumb/plan/builder.h"
#include "plumb/spec/entry.h"

namespace plumb {

/// Which keys a query sees. The causal mask, unless a fault says otherwise.
struct Mask {
  std::int64_t ahead = 0;  // position i sees keys up to i + ahead
  bool finite = false;     // the others' scores are `value`, not -inf: they are seen too
  double value = 0;
  std::int64_t window = 0;  // W > 0: position i sees nothing before i - W + 1
  bool causal() const { return ahead == 0 && !finite; }
  /// Of a block of t, the keys whose score is not masked for query i: first(i) … last(i, t) - 1.
  std::int64_t first(std::int64_t i) const { return window > 0 && i >= window ? i - window + 1 : 0; }
  std::int64_t last(std::int64_t i, std::int64_t t) const { return std::min(t, i + 1 + ahead); }
  /// Those that have a weight.
  std::int64_t first_seen(std::int64_t i) const { return finite ? 0 : first(i); }
  std::int64_t last_seen(std::int64_t i, std::int64_t t) const { return finite ? t : last(i, t); }
};

/// How scores come from q and k: cap(scale q.k), n_head heads of q to n_kv_head of k and v.
struct ScoreRule {
  std::int64_t n_head = 1, n_kv_head = 1;
  double scale = 1, softcap = 0;
};

/// What the model hands to attention: of the position code (attention/ never includes position/), and the
/// mask.
template <class R>
struct AttentionContext {
  std::shared_ptr<const ScoreBias<R>> bias = {};           // may be empty
  Value table = {};                                        // the parameter it reads; id < 0: none
  std::shared_ptr<const Rotation<R>> rotation = {};        // of q and k; may be empty
  std::shared_ptr<const Rotation<R>> local_rotation = {};  // in layers with a window; empty: the same
  Mask mask = {};
  DecoderSpec::Noise noise = {};  // dropout of the weights; none outside of training
};

template <class R>
struct Attention {
  virtual ~Attention() = default;
  /// x (B, T, C) → (B, T, C). `name`: "blocks.3.attn". Names the points ".q", ".k", ".v", ".ctx", ".out", the
  /// statistics
  /// ".entropy" and ".max_logit" (B, T, H), and the interior points ".scores" and ".weights" (B, H, T, T).
  virtual Value build(Builder<R>&, Value x, const std::string& name, int layer,
                      const AttentionContext<R>&) const = 0;
};

using AttentionEntry = FamilyEntry<Attention>;
template <template <class> class T>
constexpr AttentionEntry attention_entry(const Entry& e) {
  return make_entry<Attention, T>(e);
}
std::vector<AttentionEntry> attention_table();

/// Causal attention over q (B, T, H·D) and k, v (B, T, KV·D) as nodes, behind the position code's rotation of
/// q and k: tiles, or the composed twin with its tensors, when a hook asked for `name`.scores or
/// `name`.weights, and when the mask is not the causal one.
template <class R>
Value causal_attention(Builder<R>&, Value q, Value k, Value v, const ScoreRule&, const AttentionContext<R>&,
                       const std::string& name);

/// Normalises each head of q (B, T, heads·D) or k, as spec.attention.qk_norm says; "none": x itself. l2's
/// temperature multiplies q alone.
template <class R>
Value qk_norm(Builder<R>&, Value x, const DecoderSpec&, bool is_query, const std::string& name, int layer);

}  // namespace plumb
