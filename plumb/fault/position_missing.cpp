// The model is not told where a token stands.
#include "plumb/fault/fault.h"

namespace plumb {
namespace {

std::string position_missing_refuses(const Config& c) {
  return c.model.position == "none" ? "there is no position code to leave out" : "";
}

}  // namespace

namespace entries::fault {
extern constexpr FaultEntry position_missing = {
    .name = "position_missing",
    .what = "no position code: order is visible through the mask alone",
    .refuses = position_missing_refuses,
    .config = [](Config& c, double) { c.model.position = "none"; },
};
}  // namespace entries::fault

}  // namespace plumb
