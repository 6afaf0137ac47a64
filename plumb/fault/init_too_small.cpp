// Everything that is drawn at the start is drawn 100^s times as small: below sqrt(eps) norms no longer lift
// it.
#include <cmath>
#include "plumb/fault/fault.h"

namespace plumb {
namespace {

template <class R>
class InitTooSmall final : public GraphFault<R> {
 public:
  InitTooSmall(const DecoderSpec&, double strength) : by_(std::pow(0.01, strength)) {}
  void rule(const ParamSpec&, ParamRule& rule) const override {
    if (rule.variance() > 0) rule.scale *= by_;
  }

 private:
  double by_;
};

}  // namespace

namespace entries::fault {
extern constexpr FaultEntry init_too_small = graph_fault<InitTooSmall>({
    .name = "init_too_small",
    .what = "all weights are drawn far too small",
    .strength = "100^strength times as small",
    .high = 6,
});
}  // namespace entries::fault

}  // namespace plumb
