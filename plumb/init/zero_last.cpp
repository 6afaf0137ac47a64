// Branches that start at zero: the matrices that write to the residual stream are 0, everything else N(0,
// std²). Goyal et al. 2017, arXiv 1706.02677, section 5.1 (there by a zero gain of the branch's last norm);
// Zhang et al. 2019 (Fixup).
#include "plumb/init/init.h"

namespace plumb {
namespace {

template <class R>
class ZeroLast final : public Init<R> {
 public:
  explicit ZeroLast(const DecoderSpec& s) : s_(s) {}
  ParamRule rule(const ParamSpec& p, double branch_gain) const override {
    if (p.role == Role::attn_out || p.role == Role::ffn_out) return {ParamRule::Kind::constant, 0};
    return by_fans(s_, p, s_.init.std * branch_gain);
  }

 private:
  DecoderSpec s_;
};

std::string zero_last_refuses(const DecoderSpec& s) {
  if (s.residual == "rezero" || s.residual == "skip_init" || s.residual == "nf")
    return "the residual rule's gain starts at zero too, and a product of two zeros has no gradient; choose "
           "one of the two";
  return refuses_zero_writes(s);
}

}  // namespace

namespace entries::init {
extern constexpr InitEntry zero_last = init_entry<ZeroLast>({
    .name = "zero_last",
    .purpose = "Blocks that begin as the identity: what writes to the stream starts at zero.",
    .formula = "attention output and last FFN matrix 0, all others N(0, std^2); biases 0",
    .paper = "Goyal et al. 2017, arXiv 1706.02677, section 5.1",
    .pitfalls = "At the first step only the zero matrices (and the ends of the model) get a gradient.",
    .fields = "init.std, init.distribution",
    .refuses = zero_last_refuses,
});
}  // namespace entries::init

}  // namespace plumb
