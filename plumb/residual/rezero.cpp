// ReZero: y = x + alpha_l f(x), one alpha a layer, shared by its two writes, 0 at the start. Bachlechner et
// al. 2020, arXiv 2003.04887, eq. 2.
//
// Shapes: x, f(x), y (B, T, C); alpha (1). Gradients: dx = dy; df = alpha dy; dalpha sums dy·f over both
// writes of the layer (the second adds to the first), each as its sink says.
#include <map>

#include "plumb/residual/residual.h"

namespace plumb {
namespace {

template <class R>
class ReZero final : public Residual<R> {
 public:
  explicit ReZero(const DecoderSpec&) {}

  Value leave(Builder<R>& b, Value shortcut, Value branch, const Site& s) override {
    shortcut = b.point(s.name() + ".skip", shortcut);
    branch = b.point(s.name() + ".write", branch);
    const Value y = gated_sum(b, shortcut, 1, alpha(b, s.layer), branch, s.name() + ".add");
    b.expected_var(y, b.expected_var(shortcut));
    return y;
  }

 private:
  Value alpha(Builder<R>& b, int layer) {
    Value& a = alpha_[layer];
    if (!a)
      a = b.param({.name = "blocks." + std::to_string(layer) + ".alpha",
                   .role = Role::residual_gain,
                   .shape = {Dim{}},
                   .layer = layer},
                  {ParamRule::Kind::constant, 0});
    return a;
  }
  std::map<int, Value> alpha_;
};

}  // namespace

namespace entries::residual {
extern constexpr ResidualEntry rezero = residual_entry<ReZero>({
    .name = "rezero",
    .purpose = "Stacks that begin as the exact identity and need no norm: each layer opens its own scalar.",
    .formula = "y = x + alpha f(x), one alpha a layer, 0 at the start",
    .paper = "Bachlechner et al. 2020, arXiv 2003.04887",
    .pitfalls = "One scalar a layer, not one a branch. Branches get no gradient at the first step: alpha "
                "moves first.",
    .refuses = refuses_zero_start,
});
}  // namespace entries::residual

}  // namespace plumb
