// The way around a sub-layer is missing: y = (1 - strength) x + f(x).
#include "plumb/fault/fault.h"
#include "plumb/residual/residual.h"

namespace plumb {
namespace {

template <class R>
class NoResidual final : public GraphFault<R> {
 public:
  NoResidual(const DecoderSpec&, double strength) : s_(strength) {}
  Value at(Builder<R>& b, std::string_view point, Value v) override {
    if (!point.ends_with(".skip")) return v;
    return scaled(b, 1 - s_, v, std::string(point) + ".fault");
  }

 private:
  double s_;
};

}  // namespace

namespace entries::fault {
extern constexpr FaultEntry no_residual = graph_fault<NoResidual>({
    .name = "no_residual",
    .what = "no identity path around the sub-layers",
    .strength = "the share of the skip that is lost",
});
}  // namespace entries::fault

}  // namespace plumb
