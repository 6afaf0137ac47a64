// DeepNorm: y = LN(alpha x + f(x)), alpha = (2 L)^(1/4); v, attention output and both feed-forward matrices
// start with gain beta = (8 L)^(-1/4). Wang et al. 2022, arXiv 2203.00555, section 3 and figure 2
// (decoder-only).
//
// It is Post-LN: the norm is the placement's. The identity path is multiplied by alpha > 1, the branch is not
// scaled. Shapes: x, f(x), y (B, T, C). Gradients: dx = alpha dy; df = dy, as their sinks say (residual.cpp).
#include <cmath>

#include "plumb/residual/residual.h"

namespace plumb {
namespace {

template <class R>
class DeepNorm final : public Residual<R> {
 public:
  explicit DeepNorm(const DecoderSpec& s)
      : alpha_(std::pow(2.0 * static_cast<double>(s.n_layer), 0.25)),
        beta_(std::pow(8.0 * static_cast<double>(s.n_layer), -0.25)) {}

  Value leave(Builder<R>& b, Value shortcut, Value branch, const Site& s) override {
    shortcut = b.point(s.name() + ".skip", shortcut);
    branch = b.point(s.name() + ".write", branch);
    return scaled_sum(b, alpha_, shortcut, 1, branch, s.name() + ".add");
  }

  double branch_gain(Role role, const Site&) const override {
    switch (role) {
      case Role::v:
      case Role::attn_out:
      case Role::ffn_in:
      case Role::ffn_gate:
      case Role::ffn_out:
        return beta_;
      default:
        return 1;
    }
  }

 private:
  double alpha_, beta_;
};

std::string deepnorm_refuses(const DecoderSpec& s) {
  if (s.placement != "post")
    return "DeepNorm normalises what alpha x + f(x) gives, so it is Post-LN; set placement = 'post'";
  if (s.norm == "none") return "without a norm the stream grows by alpha at every write; choose one";
  return {};
}

}  // namespace

namespace entries::residual {
extern constexpr ResidualEntry deepnorm = residual_entry<DeepNorm>({
    .name = "deepnorm",
    .purpose = "Post-LN for stacks of hundreds of layers: a heavier shortcut and smaller branches bound each "
               "update.",
    .formula = "y = N(alpha x + f(x)), alpha = (2 n_layer)^(1/4); Xavier init times (8 n_layer)^(-1/4) on v, "
               "attention "
               "output and both FFN matrices",
    .paper = "Wang et al. 2022, arXiv 2203.00555",
    .pitfalls = "It multiplies the identity path, not the branch, and keeps Post-LN; q and k are not scaled. "
                "Other constants "
                "hold for encoder-decoders.",
    .refuses = deepnorm_refuses,
});
}  // namespace entries::residual

}  // namespace plumb
