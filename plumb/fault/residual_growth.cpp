// Each write is multiplied by 1 + 9 s, without anything that damps it with depth.
#include "plumb/fault/fault.h"
#include "plumb/residual/residual.h"

namespace plumb {
namespace {

template <class R>
class ResidualGrowth final : public GraphFault<R> {
 public:
  ResidualGrowth(const DecoderSpec&, double strength) : s_(strength) {}
  Value at(Builder<R>& b, std::string_view point, Value v) override {
    if (!point.ends_with(".write")) return v;
    return scaled(b, 1 + 9 * s_, v, std::string(point) + ".fault");
  }

 private:
  double s_;
};

}  // namespace

namespace entries::fault {
extern constexpr FaultEntry residual_growth = graph_fault<ResidualGrowth>({
    .name = "residual_growth",
    .what = "the writes are far too large: the stream grows with depth",
    .strength = "each write is multiplied by 1 + 9 strength",
    .high = 1000,
});
}  // namespace entries::fault

}  // namespace plumb
