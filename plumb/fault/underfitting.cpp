// The blocks learn 1 - s times as fast: at 1 they stay as drawn, and only the ends of the model learn.
#include "plumb/fault/fault.h"

namespace plumb {
namespace {

template <class R>
class Underfitting final : public GraphFault<R> {
 public:
  Underfitting(const DecoderSpec&, double strength) : left_(1 - strength) {}
  void rule(const ParamSpec& p, ParamRule& rule) const override {
    if (p.layer < 0) return;
    learn_times(rule, left_);
    rule.decay *= left_;
  }

 private:
  double left_;
};

}  // namespace

namespace entries::fault {
extern constexpr FaultEntry underfitting = graph_fault<Underfitting>({
    .name = "underfitting",
    .what = "too little of the model learns: both losses stay high",
    .strength = "the blocks' learning rate is multiplied by 1 - strength",
});
}  // namespace entries::fault

}  // namespace plumb
