// SkipInit: y = x + alpha f(x), one learned alpha a branch, 0 at the start. De & Smith 2020, arXiv
// 2002.10444, section 4.
//
// Shapes: x, f(x), y (B, T, C); alpha (1), `blocks.i.attn.alpha`. Gradients: dx = dy; df = alpha dy; dalpha =
// Σ dy f, each as its sink says (residual.cpp).
#include "plumb/residual/residual.h"

namespace plumb {
namespace {

template <class R>
class SkipInit final : public Residual<R> {
 public:
  explicit SkipInit(const DecoderSpec&) {}

  Value leave(Builder<R>& b, Value shortcut, Value branch, const Site& s) override {
    shortcut = b.point(s.name() + ".skip", shortcut);
    branch = b.point(s.name() + ".write", branch);
    const Value alpha = b.param(
        {.name = s.name() + ".alpha", .role = Role::residual_gain, .shape = {Dim{}}, .layer = s.layer},
        {ParamRule::Kind::constant, 0});
    const Value y = gated_sum(b, shortcut, 1, alpha, branch, s.name() + ".add");
    b.expected_var(y, b.expected_var(shortcut));
    return y;
  }
};

}  // namespace

namespace entries::residual {
extern constexpr ResidualEntry skip_init = residual_entry<SkipInit>({
    .name = "skip_init",
    .purpose = "As rezero with a scalar a branch: batch norm's effect on residual networks, isolated.",
    .formula = "y = x + alpha f(x), one alpha a branch, 0 at the start",
    .paper = "De & Smith 2020, arXiv 2002.10444",
    .pitfalls = "One scalar a branch (ReZero: one a layer). Branches get no gradient at the first step: "
                "alpha moves first.",
    .refuses = refuses_zero_start,
});
}  // namespace entries::residual

}  // namespace plumb
