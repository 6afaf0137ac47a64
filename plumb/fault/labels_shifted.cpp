// The targets are round(s) tokens further on than the next token; at -1 they are the input itself.
#include <cmath>
#include <cstdlib>
#include "plumb/fault/fault.h"

namespace plumb {
namespace {

std::string labels_shifted_refuses(const Config& c) {
  const std::int64_t by = std::llround(c.fault.strength);
  if (by == 0) return "a strength that rounds to 0 shifts nothing";
  return std::abs(by) >= c.model.block_size ? "no target would be left in a block; lower fault.strength" : "";
}

}  // namespace

namespace entries::fault {
extern constexpr FaultEntry labels_shifted = {
    .name = "labels_shifted",
    .what = "targets do not belong to their inputs",
    .strength = "by how many tokens, rounded; -1: the target is the input",
    .low = -8,
    .high = 8,
    .refuses = labels_shifted_refuses,
    .run = [](RunFaults& r, const Config&, double strength) { r.target_shift = std::llround(strength); },
};
}  // namespace entries::fault

}  // namespace plumb
