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
    rule.lr *= left_;
    rule.lr_sgd *= left_;
  }

 private:
  double left_;
};

}  // namespace

namespace entries::fault {
extern constexpr FaultEntry head_zero = graph_fault<HeadZero>({
    .name = "head_zero",
    .what = "the head is zero from the start: the logits are constant",
    .strength = "its learning rate is multiplied by 1 - strength: at 1 it stays zero",
    .config = [](Config& c, double) { c.model.tied_embeddings = false; },
});
}  // namespace entries::fault

}  // namespace plumb
