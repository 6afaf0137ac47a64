// The micro-batches of an accumulated step are summed, not averaged: loss and gradients are too large by
// their number.
#include "plumb/fault/fault.h"

namespace plumb {
namespace {

std::string loss_normaliser_refuses(const Config& c) {
  return c.train.accumulate == 1 ? "train.accumulate = 1 has nothing to add up; set it to 2 or more" : "";
}

}  // namespace

namespace entries::fault {
extern constexpr FaultEntry loss_normaliser = {
    .name = "loss_normaliser",
    .what = "the loss grows with the number of accumulated batches",
    .strength = "it is 1 + strength (accumulate - 1) times too large",
    .refuses = loss_normaliser_refuses,
    .run =
        [](RunFaults& r, const Config& c, double strength) {
          r.loss_factor = 1 + strength * static_cast<double>(c.train.accumulate - 1);
        },
};
}  // namespace entries::fault

}  // namespace plumb
