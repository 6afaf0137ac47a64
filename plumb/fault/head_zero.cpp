// The head starts at zero and, with strength 1, stays there: all logits are equal.
#include "plumb/fault/fault.h"

namespace plumb {
namespace {

template <class R>
class HeadZero final : public GraphFault<R> {
 public:
  HeadZero(const DecoderSpec&, double strength) : left_(1 - strength) {}
  void rule(const ParamSpec& p, ParamRule& rule) const override {
    if (p.role != Role::readout) return;
    rule.kind = ParamRule::Kind::constant;
    rule.scale = 0;
    learn_times(rule, left_);
  }

 private:
  double left_;
};

std::string head_zero_refuses(const Config& c) {
  return c.model.weight_param == "weight_norm" ? "weight_norm cannot hold a matrix of zeros" : "";
}

}  // namespace

namespace entries::fault {
extern constexpr FaultEntry head_zero = graph_fault<HeadZero>({
    .name = "head_zero",
    .what = "the head is zero from the start: the logits are constant",
    .strength = "its learning rate is multiplied by 1 - strength: at 1 it stays zero",
    .refuses = head_zero_refuses,
    .config = [](Config& c, double) { c.model.tied_embeddings = false; },
});
}  // namespace entries::fault

}  // namespace plumb
