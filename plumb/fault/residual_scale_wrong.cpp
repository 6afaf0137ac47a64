// What writes to the stream starts at std (2 L)^(-1/2) in GPT-2 (Radford et al. 2019); here the factor
// (2 L)^(-s/2) is put on top of whatever there is.
#include <cmath>
#include "plumb/fault/fault.h"

namespace plumb {
namespace {

template <class R>
class ResidualScaleWrong final : public GraphFault<R> {
 public:
  ResidualScaleWrong(const DecoderSpec& s, double strength)
      : by_(std::pow(2 * static_cast<double>(s.n_layer), -strength / 2)) {}
  void rule(const ParamSpec& p, ParamRule& rule) const override {
    if (p.role == Role::attn_out || p.role == Role::ffn_out) rule.scale *= by_;
  }

 private:
  double by_;
};

std::string residual_scale_wrong_refuses(const Config& c) {
  return c.model.weight_param == "scaled_ws" ? "scaled_ws takes the scale of every matrix away" : "";
}

}  // namespace

namespace entries::fault {
extern constexpr FaultEntry residual_scale_wrong = graph_fault<ResidualScaleWrong>({
    .name = "residual_scale_wrong",
    .what = "the init of what writes to the stream is damped twice, or (strength -1) not at all",
    .strength =
        "the init is multiplied by (2 n_layer)^(-strength / 2): 1 damps twice, -1 takes GPT-2's damping away",
    .low = -2,
    .high = 8,
    .refuses = residual_scale_wrong_refuses,
});
}  // namespace entries::fault

}  // namespace plumb
