// The scores lack their 1/sqrt(d_head): queries come d_head^(s/2) times too large.
#include <cmath>
#include "plumb/fault/fault.h"

#include "plumb/residual/residual.h"

namespace plumb {
namespace {

template <class R>
class AttentionUnscaled final : public GraphFault<R> {
 public:
  AttentionUnscaled(const DecoderSpec& s, double strength)
      : by_(std::pow(static_cast<double>(s.d_head), strength / 2)) {}
  Value at(Builder<R>& b, std::string_view point, Value v) override {
    return point.ends_with(".attn.q") ? scaled(b, by_, v, std::string(point) + ".fault") : v;
  }

 private:
  double by_;
};

}  // namespace

namespace entries::fault {
extern constexpr FaultEntry attention_unscaled = graph_fault<AttentionUnscaled>({
    .name = "attention_unscaled",
    .what = "the attention scores are not divided by sqrt(d_head)",
    .strength = "they are d_head^(strength / 2) times too large",
    .high = 8,
});
}  // namespace entries::fault

}  // namespace plumb
