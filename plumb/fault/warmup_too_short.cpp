// The share s of the warm-up is left out.
#include <cmath>
#include "plumb/fault/fault.h"

namespace plumb {
namespace {

std::string warmup_too_short_refuses(const Config& c) {
  return c.train.warmup == 0 ? "train.warmup = 0 has none to shorten" : "";
}

}  // namespace

namespace entries::fault {
extern constexpr FaultEntry warmup_too_short = {
    .name = "warmup_too_short",
    .what = "the learning rate is at its peak too early",
    .strength = "the share of train.warmup that is left out",
    .refuses = warmup_too_short_refuses,
    .config =
        [](Config& c, double strength) {
          c.train.warmup = std::llround(static_cast<double>(c.train.warmup) * (1 - strength));
        },
};
}  // namespace entries::fault

}  // namespace plumb
