// Everything that is drawn at the start is drawn 10^s times as large.
#include <cmath>
#include "plumb/fault/fault.h"

namespace plumb {
namespace {

template <class R>
class InitTooLarge final : public GraphFault<R> {
 public:
  InitTooLarge(const DecoderSpec&, double strength) : by_(std::pow(10.0, strength)) {}
  void rule(const ParamSpec&, ParamRule& rule) const override {
    if (rule.variance() > 0) rule.scale *= by_;
  }

 private:
  double by_;
};

}  // namespace

namespace entries::fault {
extern constexpr FaultEntry init_too_large = graph_fault<InitTooLarge>({
    .name = "init_too_large",
    .what = "all weights are drawn far too large",
    .strength = "10^strength times as large",
    .high = 6,
});
}  // namespace entries::fault

}  // namespace plumb
