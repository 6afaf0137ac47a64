// Maximal update parametrisation, in the form of the authors' code: Yang et al. 2022 (Tensor Programs V),
// arXiv 2203.03466, table 8. m = d_model / base_d_model; at m = 1 it is the standard parametrisation with std
// `std`.
//
//   parameter                        variance              forward          Adam's lr   SGD's lr
//   embeddings, biases, gains        std²                  1                η           η m
//   hidden (both fans grow with m)   std² / m              1                η / m       η
//   readout                          std²                  logits / m       η           η m
//
// A tied table follows the embedding's row, and logits are still divided by m. Attention scores are
// multiplied by sqrt(base d_head) / d_head (`attention.scale = "mup"`). Decay is relative to η, not to η / m,
// so it keeps its strength.
#include <cmath>

#include "plumb/init/init.h"

namespace plumb {
namespace {

template <class R>
class Mup final : public Init<R> {
 public:
  explicit Mup(const DecoderSpec& s)
      : s_(s), m_(static_cast<double>(s.d_model) / static_cast<double>(s.init.base_d_model)) {}

  ParamRule rule(const ParamSpec& p, double branch_gain) const override {
    return by_fans(s_, p, s_.init.std * branch_gain / (is_hidden(p.role) ? std::sqrt(m_) : 1));
  }
  void multiply(Role role, ParamRule& r) const override {
    if (is_hidden(role))
      r.lr = 1 / m_;
    else
      r.lr_sgd = m_;
  }
  double logit_scale() const override { return 1 / m_; }

 private:
  // Both its fans grow with the width.
  static bool is_hidden(Role role) {
    switch (role) {
      case Role::q:
      case Role::k:
      case Role::v:
      case Role::attn_out:
      case Role::ffn_in:
      case Role::ffn_gate:
      case Role::ffn_out:
        return true;
      default:
        return false;
    }
  }
  DecoderSpec s_;
  double m_;
};

std::string mup_refuses(const DecoderSpec& s) {
  if (s.d_embed > 0) return "it has no rule for the projections of d_embed; leave d_embed at 0";
  if (s.ffn.kind == "moe") return "a router has no row in its table; use another feed-forward network";
  if (s.attention.scale != "mup")
    return fmt::format("attention.scale = '{}'; attention's scores have a scale of their own here: 'mup'",
                       s.attention.scale);
  return {};
}

}  // namespace

namespace entries::init {
extern constexpr InitEntry mup = init_entry<Mup>({
    .name = "mup",
    .purpose = "One learning rate for every width: tune a narrow model, train a wide one.",
    .formula = "m = d_model / base_d_model; hidden matrices N(0, std^2 / m), Adam's lr / m; embeddings and "
               "readout N(0, std^2), "
               "logits / m; scores times sqrt(base d_head) / d_head",
    .paper = "Yang et al. 2022, arXiv 2203.03466, table 8",
    .pitfalls = "Without the attention scale or the readout's 1/m it transfers nothing. It steadies the best "
                "learning rate over "
                "widths; depth, batch and steps must stay what they were.",
    .fields = "init.std, init.distribution, init.base_d_model",
    .refuses = mup_refuses,
});
}  // namespace entries::init

}  // namespace plumb
