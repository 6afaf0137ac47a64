// The targets are round(s) tokens further on than the next token; at -1 they are the input itself.
#include <cmath>
#include "plumb/fault/fault.h"

namespace plumb {
namespace entries::fault {
extern constexpr FaultEntry labels_shifted = {
    .name = "labels_shifted",
    .what = "targets do not belong to their inputs",
    .strength = "by how many tokens, rounded; -1: the target is the input",
    .low = -8,
    .high = 8,
    .refuses = [](const Config& c) -> std::string {
      return std::llround(c.fault.strength) == 0 ? "a strength that rounds to 0 shifts nothing" : "";
    },
    .run = [](RunFaults& r, const Config&, double strength) { r.target_shift = std::llround(strength); },
};
}  // namespace entries::fault

}  // namespace plumb
