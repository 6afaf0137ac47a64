// A Pre-LN stack whose stream goes to the head as it is.
#include "plumb/fault/fault.h"

namespace plumb {
namespace {

std::string no_final_norm_refuses(const Config& c) {
  return c.model.final_norm.value_or(false) ? "" : "there is no final norm to leave out";
}

}  // namespace

namespace entries::fault {
extern constexpr FaultEntry no_final_norm = {
    .name = "no_final_norm",
    .what = "no norm before the head",
    .refuses = no_final_norm_refuses,
    .config = [](Config& c, double) { c.model.final_norm = false; },
};
}  // namespace entries::fault

}  // namespace plumb
