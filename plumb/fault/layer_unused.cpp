// What the block in the middle writes is multiplied by 1 - s: at 1 the stream passes it unchanged.
#include "plumb/fault/fault.h"

namespace plumb {
namespace {

template <class R>
struct LayerUnused final : ScaledAt<R> {
  LayerUnused(const DecoderSpec& s, double strength)
      : ScaledAt<R>(middle_block(s) + ".", ".write", 1 - strength) {}
};

std::string layer_unused_refuses(const Config& c) {
  if (c.model.placement == "post") return "a norm after the addition would still change the stream";
  return c.model.residual == "none" ? "without a skip an unused block ends the stream" : "";
}

}  // namespace

namespace entries::fault {
extern constexpr FaultEntry layer_unused = graph_fault<LayerUnused>({
    .name = "layer_unused",
    .what = "one block writes nothing",
    .strength = "the share of its writes that is lost",
    .refuses = layer_unused_refuses,
});
}  // namespace entries::fault

}  // namespace plumb
