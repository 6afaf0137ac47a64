// GPT-2's init: N(0, std²), and × 1/sqrt(2 n_layer) on the matrices that write to the residual stream
// (attention output and second feed-forward matrix). Radford et al. 2019 (GPT-2), section 2.3: 1/sqrt(N), N
// residual writes = 2 n_layer.
#include <cmath>

#include "plumb/init/init.h"

namespace plumb {
namespace {

template <class R>
class Gpt2 final : public Init<R> {
 public:
  explicit Gpt2(const DecoderSpec& s) : s_(s) {}
  ParamRule rule(const ParamSpec& p, double branch_gain) const override {
    if (p.role == Role::bias || p.role == Role::scalar) return {ParamRule::Kind::constant, 0};
    double std = s_.init.std * branch_gain;
    if (s_.init.residual_scale && (p.role == Role::attn_out || p.role == Role::ffn_out))
      std /= std::sqrt(2.0 * static_cast<double>(s_.n_layer));
    return drawn(s_, std);
  }

 private:
  DecoderSpec s_;
};

}  // namespace

namespace entries::init {
extern constexpr InitEntry gpt2 = init_entry<Gpt2>({
    .name = "gpt2",
    .purpose = "The usual start of a Pre-LN decoder: small, and smaller where it writes to the stream.",
    .formula = "W ~ N(0, std^2); x 1/sqrt(2 n_layer) on attention output and second FFN matrix; biases 0",
    .paper = "Radford et al. 2019 (GPT-2), section 2.3",
    .pitfalls = "Chosen by role; code that matched a suffix of the name has silently scaled nothing.",
    .fields = "init.std, init.distribution, init.residual_scale",
});
}  // namespace entries::init

}  // namespace plumb
