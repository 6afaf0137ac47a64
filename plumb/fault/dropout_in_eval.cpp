// Dropout on what the sub-layers write, in evaluation too.
#include "plumb/fault/fault.h"
#include "plumb/plan/dropout.h"

namespace plumb {
namespace {

template <class R>
class DropoutInEval final : public GraphFault<R> {
 public:
  DropoutInEval(const DecoderSpec& s, double strength) : p_(0.1 * strength), seed_(s.noise.seed) {}
  Value at(Builder<R>& b, std::string_view point, Value v) override {
    if (!point.ends_with(".write")) return v;
    const std::string name = std::string(point) + ".fault";
    return dropped(b, v, dropout_at(p_, seed_, name), name, true);
  }

 private:
  double p_;
  std::int64_t seed_;
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
