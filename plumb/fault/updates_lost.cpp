// Parameters in bf16 keep 8 bits: an update below 1/256 of a parameter is rounded away. The learning rate is
// 100^s times lower, so that most are.
#include <cmath>
#include "plumb/fault/fault.h"

namespace plumb {
namespace {

std::string updates_lost_refuses(const Config& c) {
  return c.train.precision == "fp32" ? "" : "it brings its own train.precision; leave that at \"fp32\"";
}

}  // namespace

namespace entries::fault {
extern constexpr FaultEntry updates_lost = {
    .name = "updates_lost",
    .what = "updates are smaller than the parameters' precision",
    .strength = "all that is stored is in bf16, the learning rate 100^strength times lower",
    .high = 4,
    .refuses = updates_lost_refuses,
    .config =
        [](Config& c, double strength) {
          c.train.precision = "bf16_pure";
          scale_lr(c, std::pow(100, -strength));
        },
};
}  // namespace entries::fault

}  // namespace plumb
