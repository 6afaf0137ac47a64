// The plain residual: y = x + f(x). He et al. 2015, arXiv 1512.03385, eq. 1.
#include "plumb/residual/residual.h"

namespace plumb {
namespace {

template <class R>
class Add final : public Residual<R> {
 public:
  explicit Add(const DecoderSpec&) {}
  Value leave(Builder<R>& b, Value shortcut, Value branch, const Site& s) override {
    shortcut = b.point(s.name() + ".skip", shortcut);
    branch = b.point(s.name() + ".write", branch);
    return scaled_sum(b, 1, shortcut, 1, branch, s.name() + ".add");
  }
};

}  // namespace

namespace entries::residual {
extern constexpr ResidualEntry add = residual_entry<Add>({
    .name = "add",
    .purpose = "The identity path: gradients reach every layer undiminished, and a block learns a "
               "difference.",
    .formula = "y = x + f(x)",
    .paper = "He et al. 2015, arXiv 1512.03385",
    .pitfalls =
        "The stream's variance grows with every write: a deep stack wants a final norm and scaled init.",
});
}  // namespace entries::residual

}  // namespace plumb
