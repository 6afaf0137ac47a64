// The scores are divided twice: queries come d_head^(s/2) times too small.
#include <cmath>
#include "plumb/fault/fault.h"

#include "plumb/residual/residual.h"

namespace plumb {
namespace {

template <class R>
class AttentionOverscaled final : public GraphFault<R> {
 public:
  AttentionOverscaled(const DecoderSpec& s, double strength)
      : by_(std::pow(static_cast<double>(s.d_head), -strength / 2)) {}
  Value at(Builder<R>& b, std::string_view point, Value v) override {
    return point.ends_with(".attn.q") ? scaled(b, by_, v, std::string(point) + ".fault") : v;
  }

 private:
  double by_;
};

}  // namespace

namespace entries::fault {
extern constexpr FaultEntry attention_overscaled = graph_fault<AttentionOverscaled>({
    .name = "attention_overscaled",
    .what = "the attention scores are scaled down twice: attention is nearly uniform",
    .strength = "they are d_head^(strength / 2) times too small",
    .high = 8,
});
}  // namespace entries::fault

}  // namespace plumb
