// Attention sub-layers.
#pragma once
#include <algorithm>

#include "plumb/kernel/score_bias.h"
#include "plumb/plan/builder.h"
#include "plumb/spec/entry.h"

namespace plumb {

/// Which keys a query sees. The causal mask, unless a fault says otherwise.
struct Mask {
  std::int64_t ahead = 0;  // position i sees keys 0 … i + ahead
  bool finite = false;     // the others' scores are `value`, not -inf: they are seen too
  double value = 0;
  bool causal() const { return ahead == 0 && !finite; }
  /// Keys that query i of a block of t has a weight for.
  std::int64_t seen(std::int64_t i, std::int64_t t) const { return finite ? t : kept(i, t); }
  /// Keys whose score is not masked.
  std::int64_t kept(std::int64_t i, std::int64_t t) const { return std::min(t, i + 1 + ahead); }
};

/// What the model hands to attention: of the position code (attention/ never includes position/), and the mask.
template <class R>
struct AttentionContext {
  std::shared_ptr<const ScoreBias<R>> bias = {};  // may be empty
  Value table = {};                               // the parameter it reads; id < 0: none
  Mask mask = {};
};

template <class R>
struct Attention {
  virtual ~Attention() = default;
  /// x (B, T, C) → (B, T, C). `name`: "blocks.3.attn". Names the points ".q", ".k", ".v", ".ctx", ".out", the statistics
  /// ".entropy" and ".max_logit" (B, T, H), and the interior points ".scores" and ".weights" (B, H, T, T).
  virtual Value build(Builder<R>&, Value x, const std::string& name, int layer, const AttentionContext<R>&) const = 0;
};

using AttentionEntry = FamilyEntry<Attention>;
template <template <class> class T>
constexpr AttentionEntry attention_entry(const Entry& e) {
  return make_entry<Attention, T>(e);
}
std::vector<AttentionEntry> attention_table();

/// Causal attention over q, k, v (B, T, H·D) as nodes: tiles, or the composed twin with its tensors, when a hook asked for
/// `name`.scores or `name`.weights, and when the mask is not the causal one.
template <class R>
Value causal_attention(Builder<R>&, Value q, Value k, Value v, std::int64_t n_head, double scale,
                       const AttentionContext<R>&, const std::string& name);

}  // namespace plumb
