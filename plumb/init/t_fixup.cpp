// T-Fixup: a Transformer without LayerNorm and without warm-up. Huang, Perez, Ba, Volkovs 2020, "Improving
// Transformer Optimization Through Better Initialization", section 3.2, decoder of N = n_layer layers.
//
//   all matrices Xavier
//   embeddings std d^(-1/2), times (9 N)^(-1/4), and multiplied by sqrt(d) in the forward pass
//   v, attention output and both feed-forward matrices times (9 N)^(-1/4); q and k as they are
#include <cmath>

#include "plumb/init/init.h"

namespace plumb {
namespace {

template <class R>
class TFixup final : public Init<R> {
 public:
  explicit TFixup(const DecoderSpec& s)
      : s_(s), factor_(std::pow(9.0 * static_cast<double>(s.n_layer), -0.25)) {}
  ParamRule rule(const ParamSpec& p, double branch_gain) const override {
    switch (p.role) {
      case Role::token_embed:
      case Role::pos_embed:
        return drawn(s_, factor_ / std::sqrt(static_cast<double>(s_.d_model)));
      default:
        break;
    }
    const bool scaled = p.role == Role::v || p.role == Role::attn_out || p.role == Role::ffn_in ||
                        p.role == Role::ffn_gate || p.role == Role::ffn_out;
    const double xavier = std::sqrt(2.0 / static_cast<double>(p.fan_in + p.fan_out));
    return by_fans(s_, p, branch_gain * xavier * (scaled ? factor_ : 1));
  }

 private:
  DecoderSpec s_;
  double factor_;
};

std::string t_fixup_refuses(const DecoderSpec& s) {
  if (s.d_embed > 0) return "it has no rule for the projections of d_embed; leave d_embed at 0";
  if (s.norm != "none") return "T-Fixup trains without norms; set norm = 'none'";
  return {};
}

}  // namespace

namespace entries::init {
extern constexpr InitEntry t_fixup = init_entry<TFixup>({
    .name = "t_fixup",
    .purpose = "Transformers without norms and without warm-up.",
    .formula = "Xavier; times (9 n_layer)^(-1/4) on v, attention output and FFN; embeddings std d^(-1/2) (9 "
               "n_layer)^(-1/4)",
    .paper = "Huang, Perez, Ba, Volkovs 2020 (ICML), section 3.2",
    .pitfalls = "The factor is the decoder's; an encoder has 0.67 N^(-1/4). It is meant without warm-up.",
    .fields = "init.distribution",
    .refuses = t_fixup_refuses,
});
}  // namespace entries::init

}  // namespace plumb
