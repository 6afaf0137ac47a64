// The scores lack their 1/sqrt(d_head): queries come d_head^(s/2) times too large.
#include <cmath>
#include "plumb/fault/fault.h"

namespace plumb {
namespace {

template <class R>
struct AttentionUnscaled final : ScaledAt<R> {
  AttentionUnscaled(const DecoderSpec& s, double strength)
      : ScaledAt<R>("blocks.", ".attn.q", std::pow(static_cast<double>(s.d_head), strength / 2)) {}
};

std::string attention_unscaled_refuses(const Config& c) {
  if (c.attention.qk_norm != "none") return "queries are normalised before they meet keys";
  return c.model.d_head == 1 ? "heads of width 1 are divided by 1" : "";
}

}  // namespace

namespace entries::fault {
extern constexpr FaultEntry attention_unscaled = graph_fault<AttentionUnscaled>({
    .name = "attention_unscaled",
    .what = "the attention scores are not divided by sqrt(d_head)",
    .strength = "they are d_head^(strength / 2) times too large",
    .high = 8,
    .refuses = attention_unscaled_refuses,
});
}  // namespace entries::fault

}  // namespace plumb
