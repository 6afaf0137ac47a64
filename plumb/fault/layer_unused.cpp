// What the block in the middle writes is multiplied by 1 - s: at 1 the stream passes it unchanged.
#include "plumb/fault/fault.h"
#include "plumb/residual/residual.h"

namespace plumb {
namespace {

template <class R>
class LayerUnused final : public GraphFault<R> {
 public:
  LayerUnused(const DecoderSpec& s, double strength) : block_(middle_block(s) + "."), left_(1 - strength) {}
  Value at(Builder<R>& b, std::string_view point, Value v) override {
    if (!point.starts_with(block_) || !point.ends_with(".write")) return v;
    return scaled(b, left_, v, std::string(point) + ".fault");
  }

 private:
  std::string block_;
  double left_;
};

}  // namespace

namespace entries::fault {
extern constexpr FaultEntry layer_unused = graph_fault<LayerUnused>({
    .name = "layer_unused",
    .what = "one block writes nothing",
    .strength = "the share of its writes that is lost",
});
}  // namespace entries::fault

}  // namespace plumb
