// Gains stored as w for y = (1 + w) x start at 0, plain ones at 1; here one is read as the other.
#include "plumb/fault/fault.h"

namespace plumb {
namespace {

template <class R>
class NormGainConvention final : public GraphFault<R> {
 public:
  NormGainConvention(const DecoderSpec& s, double strength)
      : by_(s.norm_gain == "plus_one" ? strength : -strength) {}
  void rule(const ParamSpec& p, ParamRule& rule) const override {
    if (p.role == Role::norm_gain) rule.scale += by_;
  }

 private:
  double by_;
};

std::string norm_gain_convention_refuses(const Config& c) {
  if (c.model.norm == "dyt" || c.model.norm == "derf")
    return "its gains belong to norms; take another model.norm";
  if (c.model.weight_param == "scaled_ws")
    return "scaled_ws has gains of its own; take another model.weight_param";
  return c.model.norm_affine.value_or(true) ? refuses_without_norm(c)
                                            : "the norms have no gains; set model.norm_affine = true";
}

}  // namespace

namespace entries::fault {
extern constexpr FaultEntry norm_gain_convention = graph_fault<NormGainConvention>({
    .name = "norm_gain_convention",
    .what = "gains made for 1 + w are read as w: they start at 0 (with model.norm_gain = \"plus_one\": w as "
            "1 + w, they "
            "start at 2)",
    .strength = "how far the gains are from 1 at the start",
    .refuses = norm_gain_convention_refuses,
});
}  // namespace entries::fault

}  // namespace plumb
