// The gradients are clipped after the optimiser used them, which clips nothing.
#include "plumb/fault/fault.h"

namespace plumb {
namespace {

std::string clip_after_step_refuses(const Config& c) {
  return c.train.grad_clip == 0 ? "train.grad_clip = 0 clips nothing" : "";
}

}  // namespace

namespace entries::fault {
extern constexpr FaultEntry clip_after_step = {
    .name = "clip_after_step",
    .what = "gradients are clipped after the update instead of before it",
    .refuses = clip_after_step_refuses,
    .config = [](Config& c, double) { c.train.grad_clip = 0; },
};
}  // namespace entries::fault

}  // namespace plumb
