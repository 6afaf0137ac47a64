// Dropout on the residual stream itself, after each block, while training.
#include "plumb/fault/fault.h"
#include "plumb/plan/dropout.h"

namespace plumb {
namespace {

template <class R>
class DropoutOnStream final : public GraphFault<R> {
 public:
  DropoutOnStream(const DecoderSpec& s, double strength) : p_(0.1 * strength), seed_(s.noise.seed) {}
  Value at(Builder<R>& b, std::string_view point, Value v) override {
    if (!is_block_point(point, ".out")) return v;
    const std::string name = std::string(point) + ".fault";
    return dropped(b, v, dropout_at(p_, seed_, name), name);
  }

 private:
  double p_;
  std::int64_t seed_;
};

}  // namespace

namespace entries::fault {
extern constexpr FaultEntry dropout_on_stream = graph_fault<DropoutOnStream>({
    .name = "dropout_on_stream",
    .what = "dropout stands on the residual stream",
    .strength = "with probability 0.1 strength",
    .high = 9,
});
}  // namespace entries::fault

}  // namespace plumb
