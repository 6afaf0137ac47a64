// The eps inside the root is of the order of the variance or above: the norm hardly normalises.
#include <algorithm>
#include "plumb/fault/fault.h"

namespace plumb {
namespace {

std::string norm_eps_large_refuses(const Config& c) {
  const std::string& n = c.model.norm;
  if (n == "none" || n == "center" || n == "dyt" || n == "derf")
    return "model.norm has no eps; take another norm";
  return c.model.norm_eps >= c.fault.strength ? "model.norm_eps is not below the fault's already" : "";
}

}  // namespace

namespace entries::fault {
extern constexpr FaultEntry norm_eps_large = {
    .name = "norm_eps_large",
    .what = "eps is of the order of the norm's input variance or above it",
    .strength = "it is at least this",
    .high = 1e6,
    .refuses = norm_eps_large_refuses,
    .config = [](Config& c, double strength) { c.model.norm_eps = std::max(c.model.norm_eps, strength); },
};
}  // namespace entries::fault

}  // namespace plumb
