// Kaiming (He) init: Var W = gain² / fan_in keeps the second moment through layer and activation. He et al.
// 2015, arXiv 1502.01852, eqs. 10 and 15.
//
// The feed-forward matrices have their activation's gain (relu √2, leaky √(2 / (1 + a²)), tanh 5/3; those
// near relu, like gelu, take its √2), as the paper gives it to the first layer too; attention has no
// activation, its gain is 1. Embeddings are lookups: they take init.std.
#include <cmath>

#include "plumb/init/init.h"

namespace plumb {
namespace {

template <class R>
class Kaiming final : public Init<R> {
 public:
  explicit Kaiming(const DecoderSpec& s) : s_(s) {}
  ParamRule rule(const ParamSpec& p, double branch_gain) const override {
    const bool active = p.role == Role::ffn_in || p.role == Role::ffn_gate || p.role == Role::ffn_out;
    const double gain = active ? gain_of(s_.ffn.kind, s_.init.leaky_slope) : 1;
    return by_fans(s_, p, branch_gain * gain / std::sqrt(static_cast<double>(p.fan_in)));
  }

 private:
  static double gain_of(std::string_view activation, double slope) {
    if (activation == "tanh") return 5.0 / 3;
    if (activation == "leaky_relu") return std::sqrt(2 / (1 + slope * slope));
    return std::sqrt(2.0);
  }
  DecoderSpec s_;
};

}  // namespace

namespace entries::init {
extern constexpr InitEntry kaiming = init_entry<Kaiming>({
    .name = "kaiming",
    .purpose = "The second moment kept through layers of rectifiers.",
    .formula = "Var W = gain^2 / fan_in, gain sqrt 2 on the feed-forward matrices (tanh 5/3, leaky sqrt(2 / "
               "(1 + a^2))), 1 on "
               "attention's; embeddings N(0, std^2); biases 0",
    .paper = "He et al. 2015, arXiv 1502.01852, eqs. 10 and 15",
    .pitfalls = "It keeps the second moment, not the variance: a ReLU's output has a mean. Residual writes "
                "still add up over "
                "depth.",
    .fields = "init.std, init.distribution, init.leaky_slope",
});
}  // namespace entries::init

}  // namespace plumb
