// Fixup: deep residual networks without norms. Zhang, Dauphin, Ma 2019, arXiv 1901.09321, section 3.
//
//   last matrix of each branch, and the classifier: 0
//   its other matrices: He's std sqrt(2/fan_out) × B^(-1/(2m-2)), B = 2 n_layer branches, m = 2 layers
//   a scalar bias (0) before each linear and activation; a scalar multiplier (1) at the end of each branch
//
// Parameters: `<name>.shift` before the linear or activation of that name, `blocks.i.attn.gain`,
// `blocks.i.ffn.gain`. Gradients: as the shared ops' sinks say (init.cpp).
#include <cmath>

#include "plumb/init/init.h"

namespace plumb {
namespace {

constexpr double layers_of_a_branch = 2;

template <class R>
class Fixup final : public Init<R> {
 public:
  explicit Fixup(const DecoderSpec& s) : s_(s) {}

  ParamRule rule(const ParamSpec& p, double branch_gain) const override {
    switch (p.role) {
      case Role::bias:
      case Role::scalar:
      case Role::attn_out:
      case Role::ffn_out:
      case Role::readout:
        return {ParamRule::Kind::constant, 0};
      case Role::token_embed:
      case Role::pos_embed:
      case Role::score_bias:
      case Role::router:
        return drawn(s_, s_.init.std * branch_gain);
      default:
        break;
    }
    const double he = std::sqrt(2.0 / static_cast<double>(p.fan_out));
    const double branches = 2.0 * static_cast<double>(s_.n_layer);
    return drawn(s_, he * std::pow(branches, -1 / (2 * layers_of_a_branch - 2)) * branch_gain);
  }

  bool has_before() const override { return true; }

  Value before(Builder<R>& b, Value x, std::string_view name) const override {
    const std::string at = std::string(name) + ".shift";
    const int layer = b.site() ? b.site()->layer : -1;
    const Value shift = b.param({.name = at, .role = Role::scalar, .shape = {Dim{}}, .layer = layer},
                                {ParamRule::Kind::constant, 0});
    return add_scalar(b, x, shift, at);
  }

  Value after_branch(Builder<R>& b, Value x, const Site& s) const override {
    const std::string at = s.name() + ".gain";
    const Value gain = b.param({.name = at, .role = Role::scalar, .shape = {Dim{}}, .layer = s.layer},
                               {ParamRule::Kind::constant, 1});
    return multiply_scalar(b, x, gain, at);
  }

 private:
  DecoderSpec s_;
};

std::string fixup_refuses(const DecoderSpec& s) {
  if (s.d_embed > 0) return "it has no rule for the projections of d_embed; leave d_embed at 0";
  if (s.norm != "none") return "Fixup trains without norms; set norm = 'none'";
  if (s.tied_embeddings)
    return "Fixup starts the head at zero, which a shared embedding cannot; set tied_embeddings = false";
  return refuses_zero_writes(s);
}

}  // namespace

namespace entries::init {
extern constexpr InitEntry fixup = init_entry<Fixup>({
    .name = "fixup",
    .purpose = "Deep residual stacks without norms: branches start at zero, the rest is scaled down by "
               "depth.",
    .formula =
        "last matrix of a branch and head 0; others He(fan_out) (2 n_layer)^(-1/2); scalar shifts and gains",
    .paper = "Zhang, Dauphin, Ma 2019, arXiv 1901.09321",
    .pitfalls = "The classifier starts at zero too, so the first step moves only it; the scalars want a "
                "smaller learning rate.",
    .fields = "init.std, init.distribution",
    .refuses = fixup_refuses,
});
}  // namespace entries::init

}  // namespace plumb
