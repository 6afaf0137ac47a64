// Xavier (Glorot) init: Var W = 2 / (fan_in + fan_out), between what keeps the forward variance and the
// backward one. Glorot & Bengio 2010, "Understanding the difficulty of training deep feedforward neural
// networks", eq. 12.
//
// Embeddings are lookups, not sums over fan_in: they take init.std.
#include <cmath>

#include "plumb/init/init.h"

namespace plumb {
namespace {

template <class R>
class Xavier final : public Init<R> {
 public:
  explicit Xavier(const DecoderSpec& s) : s_(s) {}
  ParamRule rule(const ParamSpec& p, double branch_gain) const override {
    return by_fans(s_, p, branch_gain * std::sqrt(2.0 / static_cast<double>(p.fan_in + p.fan_out)));
  }

 private:
  DecoderSpec s_;
};

}  // namespace

namespace entries::init {
extern constexpr InitEntry xavier = init_entry<Xavier>({
    .name = "xavier",
    .purpose = "A compromise between keeping variance forward and backward; deepnorm's base.",
    .formula = "Var W = 2 / (fan_in + fan_out); embeddings N(0, std^2); biases 0",
    .paper = "Glorot & Bengio 2010, eq. 12",
    .pitfalls = "Made for tanh and linear layers: with ReLU each layer halves the second moment.",
    .fields = "init.std, init.distribution",
});
}  // namespace entries::init

}  // namespace plumb
