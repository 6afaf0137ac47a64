// LeCun init: Var W = 1 / fan_in keeps the variance of a linear layer. LeCun et al. 1998, "Efficient
// BackProp", section 4.6.
//
// Embeddings are lookups, not sums over fan_in: they take init.std. (PyTorch's Linear draws a third of this
// variance.)
#include <cmath>

#include "plumb/init/init.h"

namespace plumb {
namespace {

template <class R>
class LeCun final : public Init<R> {
 public:
  explicit LeCun(const DecoderSpec& s) : s_(s) {}
  ParamRule rule(const ParamSpec& p, double branch_gain) const override {
    return by_fans(s_, p, branch_gain / std::sqrt(static_cast<double>(p.fan_in)));
  }

 private:
  DecoderSpec s_;
};

}  // namespace

namespace entries::init {
extern constexpr InitEntry lecun = init_entry<LeCun>({
    .name = "lecun",
    .purpose = "The variance kept through linear layers.",
    .formula = "Var W = 1 / fan_in; embeddings N(0, std^2); biases 0",
    .paper = "LeCun et al. 1998, Efficient BackProp, section 4.6",
    .pitfalls = "It is not PyTorch's default for Linear, whose variance is 1 / (3 fan_in).",
    .fields = "init.std, init.distribution",
});
}  // namespace entries::init

}  // namespace plumb
