// Branches scaled by depth: y = x + f(x) / sqrt(2 L), L = n_layer, one factor for every write. De & Smith
// 2020, arXiv 2002.10444, section 3. (Often written 1/sqrt(L), which counts one write a layer.)
//
// With branches of variance v the stream gains v over the whole stack, at any depth. Shapes: x, f(x), y (B,
// T, C). Gradients: dx = dy; df = dy / sqrt(2 L), as their sinks say (residual.cpp).
#include <cmath>

#include "plumb/residual/residual.h"

namespace plumb {
namespace {

template <class R>
class DepthScale final : public Residual<R> {
 public:
  explicit DepthScale(const DecoderSpec&) {}
  Value leave(Builder<R>& b, Value shortcut, Value branch, const Site& s) override {
    shortcut = b.point(s.name() + ".skip", shortcut);
    const double factor = 1 / std::sqrt(static_cast<double>(s.n_write));
    branch = b.point(s.name() + ".write", scaled(b, factor, branch, s.name() + ".scaled"));
    return scaled_sum(b, 1, shortcut, 1, branch, s.name() + ".add");
  }
};

std::string depth_scale_refuses(const DecoderSpec& s) {
  if (s.init.scheme == "gpt2" && s.init.residual_scale)
    return "GPT-2's init already scales what is written by 1/sqrt(2 n_layer), and both together damp it "
           "twice; set "
           "init.residual_scale = false";
  return {};
}

}  // namespace

namespace entries::residual {
extern constexpr ResidualEntry depth_scale = residual_entry<DepthScale>({
    .name = "depth_scale",
    .purpose = "The stream's variance grows by 1 in all, however deep, instead of by 1 a write.",
    .formula = "y = x + f(x) / sqrt(2 n_layer)",
    .paper = "De & Smith 2020, arXiv 2002.10444",
    .pitfalls = "There are two writes a layer, so the factor is 1/sqrt(2 L), not 1/sqrt(L). It acts in every "
                "step, unlike "
                "GPT-2's scaled init, which training may undo.",
    .refuses = depth_scale_refuses,
});
}  // namespace entries::residual

}  // namespace plumb
