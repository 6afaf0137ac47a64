// Dropout on what the sub-layers write, in evaluation too.
#include "plumb/fault/fault.h"

namespace plumb {
namespace {

template <class R>
class DropoutInEval final : public GraphFault<R> {
 public:
  DropoutInEval(const DecoderSpec&, double strength) : p_(0.1 * strength) {}
  Value at(Builder<R>& b, std::string_view point, Value v) override {
    return point.ends_with(".write") ? dropped(b, v, p_, true, std::string(point) + ".fault") : v;
  }

 private:
  double p_;
};

}  // namespace

namespace entries::fault {
extern constexpr FaultEntry dropout_in_eval = graph_fault<DropoutInEval>({
    .name = "dropout_in_eval",
    .what = "dropout is on in evaluation",
    .strength = "with probability 0.1 strength",
    .high = 9,
});
}  // namespace entries::fault

}  // namespace plumb
