// The statistics are taken over the positions of a sequence, for each feature, instead of over the features:
// what instance norm does.
#include "plumb/fault/fault.h"

namespace plumb {
namespace {

std::string norm_wrong_axis_refuses(const Config& c) {
  return c.model.norm == "instance" ? "model.norm = \"instance\" takes them there already"
                                    : refuses_without_norm(c);
}

}  // namespace

namespace entries::fault {
extern constexpr FaultEntry norm_wrong_axis = {
    .name = "norm_wrong_axis",
    .what = "the norm's statistics are over the sequence, not over the features",
    .refuses = norm_wrong_axis_refuses,
    .config = [](Config& c, double) { c.model.norm = "instance"; },
};
}  // namespace entries::fault

}  // namespace plumb
