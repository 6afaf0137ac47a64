// The eps inside the root is of the order of the variance or above: the norm hardly normalises.
#include <algorithm>
#include "plumb/fault/fault.h"

namespace plumb {
namespace entries::fault {
extern constexpr FaultEntry norm_eps_large = {
    .name = "norm_eps_large",
    .what = "eps is of the order of the norm's input variance or above it",
    .strength = "eps itself",
    .high = 1e6,
    .refuses = refuses_without_norm,
    .config = [](Config& c, double strength) { c.model.norm_eps = std::max(c.model.norm_eps, strength); },
};
}  // namespace entries::fault

}  // namespace plumb
