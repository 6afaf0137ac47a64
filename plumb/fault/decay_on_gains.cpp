// Weight decay pulls norm gains and biases to 0 too.
#include "plumb/fault/fault.h"

namespace plumb {
namespace {

template <class R>
class DecayOnGains final : public GraphFault<R> {
 public:
  DecayOnGains(const DecoderSpec&, double strength) : by_(strength) {}
  void rule(const ParamSpec& p, ParamRule& rule) const override {
    if (decays(p.role)) return;
    rule.decays_anyway = true;
    rule.decay *= by_;
  }

 private:
  double by_;
};

std::string decay_on_gains_refuses(const Config& c) {
  return c.train.weight_decay == 0 ? "train.weight_decay = 0 decays nothing" : "";
}

}  // namespace

namespace entries::fault {
extern constexpr FaultEntry decay_on_gains = graph_fault<DecayOnGains>({
    .name = "decay_on_gains",
    .what = "weight decay acts on norm gains, biases and all else that it should leave alone",
    .strength = "times train.weight_decay",
    .high = 1000,
    .refuses = decay_on_gains_refuses,
});
}  // namespace entries::fault

}  // namespace plumb
