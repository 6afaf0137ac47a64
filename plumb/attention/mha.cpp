// Multi-head attention. Vaswani et al. 2017, arXiv 1706.03762, section 3.2.2.
//
//   ctx = attention(x Wq^T, x Wk^T, x Wv^T) per head;  out = ctx Wo^T
//
// Shapes: x, out (B, T, C); q, k, v, ctx (B, T, H·D). q, k and v are three parameters, adjacent, one product.
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
    const Dim width{'C', s_.n_head * s_.d_head, true};
    const LinearSpec qkv[3] = {{name + ".q", width, Role::q, s_.attention.bias, layer},
                               {name + ".k", width, Role::k, s_.attention.bias, layer},
                               {name + ".v", width, Role::v, s_.attention.bias, layer}};
    std::vector<Value> made = b.linears(x, qkv);
    for (std::size_t i = 0; i < 3; ++i) made[i] = b.point(qkv[i].name, made[i]);
    const Value ctx = b.point(
        name + ".ctx", causal_attention(b, made[0], made[1], made[2], s_.n_head, scale(), context, name));
    if (!s_.attention.output_projection) return b.point(name + ".out", ctx);
    return b.point(
        name + ".out",
        b.linear(ctx, {name + ".o", {'C', s_.d_model, true}, Role::attn_out, s_.attention.bias, layer}));
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
  if (s.attention.output_projection || s.n_head * s.d_head == s.d_model) return {};
  return fmt::format(
      "without an output projection the heads are what is written, but n_head x d_head = {} and d_model = {}; set "
      "model.attention.output_projection = true or change model.d_head",
      s.n_head * s.d_head, s.d_model);
}

}  // namespace

namespace entries::attention {
extern constexpr AttentionEntry mha = attention_entry<Mha>({
    .name = "mha",
    .formula = "softmax(scale q k^T + mask) v per head, then Wo",
    .paper = "Vaswani et al. 2017, arXiv 1706.03762, section 3.2.2",
    .pitfalls = "scale = 'none' with unit-variance keys saturates the softmax as d_head grows.",
    .fields = "model.n_head, model.d_head, model.attention.scale, model.attention.bias, "
              "model.attention.output_projection",
    .refuses = mha_refuses,
});
}  // namespace entries::attention

}  // namespace plumb
