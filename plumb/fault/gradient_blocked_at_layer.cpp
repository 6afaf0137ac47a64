// The gradient that leaves the block in the middle downwards is multiplied by 10^(-4 s); forward nothing
// changes.
#include <algorithm>
#include <cmath>
#include "plumb/fault/fault.h"

namespace plumb {
namespace {

template <class R>
class GradientBlocked final : public GraphFault<R> {
 public:
  GradientBlocked(const DecoderSpec& s, double strength)
      : point_(middle_block(s) + ".in"), left_(std::pow(10.0, -4 * strength)) {}
  Value at(Builder<R>& b, std::string_view point, Value v) override {
    if (point != point_) return v;
    const auto all = [](R m) {
      return [m](const Run<R>&, std::int64_t, std::int64_t, std::span<R> f) { std::ranges::fill(f, m); };
    };
    return multiplied<R>(b, v, "gradient_block", all(R(1)), all(static_cast<R>(left_)), point_ + ".fault");
  }

 private:
  std::string point_;
  double left_;
};

}  // namespace

namespace entries::fault {
extern constexpr FaultEntry gradient_blocked_at_layer = graph_fault<GradientBlocked>({
    .name = "gradient_blocked_at_layer",
    .what = "the gradient drops by orders of magnitude at one block",
    .strength = "it is multiplied by 10^(-4 strength) below the block in the middle",
    .high = 20,
});
}  // namespace entries::fault

}  // namespace plumb
