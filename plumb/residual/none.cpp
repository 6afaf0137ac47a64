// No residual path: y = f(x). Kept to show why there is one.
#include "plumb/residual/residual.h"

namespace plumb {
namespace {

template <class R>
class NoResidual final : public Residual<R> {
 public:
  explicit NoResidual(const DecoderSpec&) {}
  Value leave(Builder<R>& b, Value, Value branch, const Site& s) override {
    return b.point(s.name() + ".write", branch);
  }
};

std::string none_refuses(const DecoderSpec& s) {
  if (s.placement == "parallel")
    return "a parallel block adds both branches to one stream; without a residual path there is none";
  return {};
}

}  // namespace

namespace entries::residual {
extern constexpr ResidualEntry none = residual_entry<NoResidual>({
    .name = "none",
    .purpose = "To see what the identity path is for: signals and gradients pass every block.",
    .formula = "y = f(x)",
    .paper = "",
    .pitfalls = "Positions become alike within a few layers (rank collapse) and the model cannot tell "
                "contexts apart.",
    .refuses = none_refuses,
});
}  // namespace entries::residual

}  // namespace plumb
