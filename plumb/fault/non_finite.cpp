// From the step round(10 / s) on, what the feed-forward network of the block in the middle writes overflows.
#include <algorithm>
#include <cmath>
#include <limits>
#include "plumb/fault/fault.h"

namespace plumb {
namespace {

template <class R>
class NonFinite final : public GraphFault<R> {
 public:
  NonFinite(const DecoderSpec& s, double strength)
      : point_(middle_block(s) + ".ffn.write"), step_(std::llround(10 / strength)) {}
  Value at(Builder<R>& b, std::string_view point, Value v) override {
    if (point != point_) return v;
    const auto factors = [from = step_](const Run<R>& r, std::int64_t, std::int64_t, std::span<R> m) {
      std::ranges::fill(
          m, r.mode() == Mode::train && r.step() >= from ? std::numeric_limits<R>::infinity() : R(1));
    };
    return multiplied<R>(b, v, "overflow", factors, {}, point_ + ".fault");
  }

 private:
  std::string point_;
  std::int64_t step_;
};

std::string non_finite_refuses(const Config& c) {
  return std::llround(10 / c.fault.strength) >= c.train.steps
             ? "the run ends before its step; raise train.steps or fault.strength"
             : "";
}

}  // namespace

namespace entries::fault {
extern constexpr FaultEntry non_finite = graph_fault<NonFinite>({
    .name = "non_finite",
    .what = "an activation overflows while training",
    .strength = "from step round(10 / strength) on",
    .low = 1e-6,
    .high = 20,
    .refuses = non_finite_refuses,
});
}  // namespace entries::fault

}  // namespace plumb
