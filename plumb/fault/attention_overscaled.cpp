// The scores are divided twice: queries come d_head^(s/2) times too small.
#include <cmath>
#include "plumb/fault/fault.h"

namespace plumb {
namespace {

template <class R>
struct AttentionOverscaled final : ScaledAt<R> {
  AttentionOverscaled(const DecoderSpec& s, double strength)
      : ScaledAt<R>("blocks.", ".attn.q", std::pow(static_cast<double>(s.d_head), -strength / 2)) {}
};

std::string attention_overscaled_refuses(const Config& c) {
  if (c.attention.qk_norm != "none") return "queries are normalised before they meet keys";
  return c.model.d_head == 1 ? "heads of width 1 are divided by 1" : "";
}

}  // namespace

namespace entries::fault {
extern constexpr FaultEntry attention_overscaled = graph_fault<AttentionOverscaled>({
    .name = "attention_overscaled",
    .what = "the attention scores are scaled down twice: attention is nearly uniform",
    .strength = "they are d_head^(strength / 2) times too small",
    .high = 8,
    .refuses = attention_overscaled_refuses,
});
}  // namespace entries::fault

}  // namespace plumb
