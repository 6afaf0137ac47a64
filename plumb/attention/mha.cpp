// Multi-head attention, with fewer heads of keys and values where model.n_kv_head says so. Vaswani et al.
// 2017, arXiv 1706.03762, section 3.2.2; one head of keys (MQA): Shazeer 2019, arXiv 1911.02150; groups
// (GQA): Ainslie et al. 2023, arXiv 2305.13245.
//
//   ctx = attention(N(x Wq^T), N(x Wk^T), x Wv^T) per head, head h with keys of head h / (H / KV);  out = ctx
//   Wo^T
//
// N is qk_norm, before any rotation. Shapes: x, out (B, T, C); q, ctx (B, T, H·D); k, v (B, T, KV·D). q, k
// and v are three parameters, adjacent, one product.
#include <cmath>

#include "plumb/attention/attention.h"

namespace plumb {
namespace {

template <class R>
class Mha final : public Attention<R> {
 public:
  explicit Mha(const DecoderSpec& s) : s_(s) {}

  Value build(Builder<R>& b, Value x, const std::string& name, int layer,
              const AttentionContext<R>& context) const override {
    const auto& a = s_.attention;
    const Dim all{'C', s_.n_head * s_.d_head, true}, shared{'C', s_.kv_heads() * s_.d_head, true};
    std::vector<LinearSpec> made;
    if (a.qk_projection) {
      made.push_back({name + ".q", all, Role::q, a.qkv_bias(), layer});
      made.push_back({name + ".k", shared, Role::k, a.qkv_bias(), layer});
    }
    if (a.value_projection) made.push_back({name + ".v", shared, Role::v, a.qkv_bias(), layer});
    std::vector<Value> projected;
    if (!made.empty()) projected = b.linears(x, made);
    Value q = b.point(name + ".q", a.qk_projection ? projected[0] : x);
    Value k = b.point(name + ".k", a.qk_projection ? projected[1] : x);
    const Value v = b.point(name + ".v", a.value_projection ? projected.back() : x);
    q = qk_norm(b, q, s_, true, name + ".q_norm", layer);
    k = qk_norm(b, k, s_, false, name + ".k_norm", layer);
    AttentionContext<R> seen = context;
    seen.mask.window = a.window_of(layer);
    if (seen.mask.window > 0 && context.local_rotation) seen.rotation = context.local_rotation;
    const ScoreRule rule{s_.n_head, s_.kv_heads(), scale(), a.softcap};
    const Value ctx = b.point(name + ".ctx", causal_attention(b, q, k, v, rule, seen, name));
    if (!a.output_projection) return b.point(name + ".out", ctx);
    return b.point(
        name + ".out",
        b.linear(ctx, {name + ".o", {'C', s_.d_model, true}, Role::attn_out, a.out_bias(), layer}));
  }

 private:
  double scale() const {
    const auto d = static_cast<double>(s_.d_head);
    if (s_.attention.scale == "none") return 1;
    if (s_.attention.scale != "mup") return 1 / std::sqrt(d);
    // muP: 1/d_head, in units that make it 1/sqrt(d_head) at the base width. Without a base d_head, n_head is
    // what stays.
    const double base = s_.init.base_d_head > 0
                            ? static_cast<double>(s_.init.base_d_head)
                            : d * static_cast<double>(s_.init.base_d_model) / static_cast<double>(s_.d_model);
    return std::sqrt(base) / d;
  }
  DecoderSpec s_;
};

std::string mha_refuses(const DecoderSpec& s) {
  const std::int64_t width = s.n_head * s.d_head, shared = s.kv_heads() * s.d_head;
  if (s.n_head % s.kv_heads() != 0)
    return fmt::format(
        "model.n_head = {} heads of queries cannot be shared out evenly among model.n_kv_head = {}; choose a "
        "divisor of n_head",
        s.n_head, s.n_kv_head);
  if (!s.attention.output_projection && width != s.d_model)
    return fmt::format(
        "without an output projection the heads are what is written, but n_head x d_head = {} and d_model = "
        "{}; set model.attention.output_projection = true or change model.d_head",
        width, s.d_model);
  if (!s.attention.qk_projection && (width != s.d_model || shared != s.d_model))
    return fmt::format(
        "without q and k projections the input is cut into heads as it is, but n_head x d_head = {}, "
        "n_kv_head "
        "x d_head = {} and d_model = {}; set model.attention.qk_projection = true or make them equal",
        width, shared, s.d_model);
  if (!s.attention.value_projection && shared != s.d_model)
    return fmt::format(
        "without a value projection the input is cut into heads as it is, but n_kv_head x d_head = {} and "
        "d_model = {}; set model.attention.value_projection = true or make them equal",
        shared, s.d_model);
  return {};
}

}  // namespace

namespace entries::attention {
extern constexpr AttentionEntry mha = attention_entry<Mha>({
    .name = "mha",
    .purpose = "Each position reads from those before it, by similarity of learned queries and keys; with "
               "fewer heads of keys and values the cache shrinks by as much.",
    .formula = "softmax(cap(scale q k^T) + mask) v per head, then Wo; head h reads keys and values of head h "
               "/ (n_head / "
               "n_kv_head)",
    .paper = "Vaswani et al. 2017, arXiv 1706.03762, section 3.2.2; Shazeer 2019 (MQA), arXiv 1911.02150; "
             "Ainslie et al. "
             "2023 (GQA), arXiv 2305.13245",
    .pitfalls = "scale = 'none' with unit-variance keys saturates the softmax as d_head grows. Heads h mod "
                "n_kv_head instead "
                "of h / group read other heads' keys, and load every checkpoint without an error.",
    .fields = "model.n_head, model.n_kv_head, model.d_head, model.attention.scale, model.attention.bias, "
              "model.attention.qk_norm, model.norm_eps, model.norm_gain, model.norm_bias, "
              "model.attention.softcap, model.attention.window, "
              "model.attention.full_every, "
              "model.attention.qk_projection, "
              "model.attention.value_projection, model.attention.output_projection",
    .refuses = mha_refuses,
});
}  // namespace entries::attention

}  // namespace plumb
