// What the head reads is multiplied by 1 - s: at 1 every position has the same logits.
#include "plumb/fault/fault.h"
#include "plumb/residual/residual.h"

namespace plumb {
namespace {

template <class R>
class ConstantOutput final : public GraphFault<R> {
 public:
  ConstantOutput(const DecoderSpec&, double strength) : s_(strength) {}
  Value at(Builder<R>& b, std::string_view point, Value v) override {
    if (!(point == "final_norm")) return v;
    return scaled(b, 1 - s_, v, std::string(point) + ".fault");
  }

 private:
  double s_;
};

}  // namespace

namespace entries::fault {
extern constexpr FaultEntry constant_output = graph_fault<ConstantOutput>({
    .name = "constant_output",
    .what = "the output does not depend on the input",
    .strength = "the share of the head's input that is lost",
});
}  // namespace entries::fault

}  // namespace plumb
