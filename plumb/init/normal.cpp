// Every matrix and table N(0, std²), biases 0. Radford et al. 2018 (GPT), section 4.1: std 0.02.
#include "plumb/init/init.h"

namespace plumb {
namespace {

template <class R>
class Normal final : public Init<R> {
 public:
  explicit Normal(const DecoderSpec& s) : s_(s) {}
  ParamRule rule(const ParamSpec& p, double branch_gain) const override {
    if (p.role == Role::bias || p.role == Role::scalar) return {ParamRule::Kind::constant, 0};
    return drawn(s_, s_.init.std * branch_gain);
  }

 private:
  DecoderSpec s_;
};

}  // namespace

namespace entries::init {
extern constexpr InitEntry normal = init_entry<Normal>({
    .name = "normal",
    .purpose = "One standard deviation for all: the plain start that the others are compared with.",
    .formula = "W ~ N(0, std^2), biases 0",
    .paper = "Radford et al. 2018 (GPT), section 4.1",
    .pitfalls = "Writes to the stream add up with depth; gpt2 scales them.",
    .fields = "init.std, init.distribution",
});
}  // namespace entries::init

}  // namespace plumb
