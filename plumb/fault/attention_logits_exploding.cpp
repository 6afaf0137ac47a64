// Queries and keys learn 1 + 19 s times as fast as the rest and do not decay, with nothing that bounds q.k.
#include "plumb/fault/fault.h"

namespace plumb {
namespace {

template <class R>
class AttentionLogitsExploding final : public GraphFault<R> {
 public:
  AttentionLogitsExploding(const DecoderSpec&, double strength) : by_(1 + 19 * strength) {}
  void rule(const ParamSpec& p, ParamRule& rule) const override {
    if (p.role != Role::q && p.role != Role::k) return;
    learn_times(rule, by_);
    rule.decay = 0;
  }

 private:
  double by_;
};

}  // namespace

namespace entries::fault {
extern constexpr FaultEntry attention_logits_exploding = graph_fault<AttentionLogitsExploding>({
    .name = "attention_logits_exploding",
    .what = "the attention scores grow without bound",
    .strength = "queries and keys learn 1 + 19 strength times as fast, without decay",
    .high = 1000,
});
}  // namespace entries::fault

}  // namespace plumb
