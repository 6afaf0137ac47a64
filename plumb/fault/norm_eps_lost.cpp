// fp16 holds nothing below 2^-24 = 6e-8, so eps = 1e-8 is 0 there; and the norm adds up its squares in fp16,
// which ends at 65504.
#include "plumb/fault/fault.h"

namespace plumb {
namespace {

std::string norm_eps_lost_refuses(const Config& c) {
  if (c.train.precision != "fp32") return "it brings its own train.precision; leave that at \"fp32\"";
  return c.model.norm == "layer" || c.model.norm == "rms"
             ? ""
             : "only model.norm = \"layer\" and \"rms\" add up in the storage format";
}

}  // namespace

namespace entries::fault {
extern constexpr FaultEntry norm_eps_lost = {
    .name = "norm_eps_lost",
    .what = "all is in fp16: eps = 1e-8 is 0 there, and the norm's sum of squares may overflow",
    .refuses = norm_eps_lost_refuses,
    .config =
        [](Config& c, double) {
          c.train.precision = "fp16_pure";
          c.train.norm_reduce = "storage";
          c.model.norm_eps = 1e-8;
        },
};
}  // namespace entries::fault

}  // namespace plumb
