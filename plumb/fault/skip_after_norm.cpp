// The skip is taken after the norm: y = N(x) + f(N(x)), with strength 1.
#include "plumb/fault/fault.h"
#include "plumb/residual/residual.h"

namespace plumb {
namespace {

template <class R>
class SkipAfterNorm final : public GraphFault<R> {
 public:
  SkipAfterNorm(const DecoderSpec&, double strength) : s_(strength) {}
  Value at(Builder<R>& b, std::string_view point, Value v) override {
    if (point.starts_with("blocks.") && point.ends_with(".norm")) normed_ = v;
    if (!point.ends_with(".skip")) return v;
    return scaled_sum(b, 1 - s_, v, s_, normed_, std::string(point) + ".fault");
  }

 private:
  double s_;
  Value normed_;
};

std::string skip_after_norm_refuses(const Config& c) {
  const std::string& p = c.model.placement;
  if (p != "pre" && p != "sandwich")
    return "it needs a norm before the sub-layer; set model.placement = \"pre\"";
  if (c.model.residual == "hyper_connections") return "the lanes' skip has no norm of its own";
  if (c.model.residual == "none") return "there is no skip in this model";
  return refuses_without_norm(c);
}

}  // namespace

namespace entries::fault {
extern constexpr FaultEntry skip_after_norm = graph_fault<SkipAfterNorm>({
    .name = "skip_after_norm",
    .what = "the skip is taken after the norm instead of before it",
    .strength = "the normalised share of the skip",
    .refuses = skip_after_norm_refuses,
});
}  // namespace entries::fault

}  // namespace plumb
