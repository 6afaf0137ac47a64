// The heads, side by side, are what attention writes to the stream.
#include "plumb/fault/fault.h"

namespace plumb {
namespace {

std::string no_output_projection_refuses(const Config& c) {
  if (!c.attention.output_projection)
    return "model.attention.output_projection = false leaves it out already";
  return c.model.n_head * c.model.d_head.value_or(0) == c.model.d_model
             ? ""
             : "n_head x d_head is not d_model, so the heads cannot be written; change model.d_head";
}

}  // namespace

namespace entries::fault {
extern constexpr FaultEntry no_output_projection = {
    .name = "no_output_projection",
    .what = "the heads write to the stream directly",
    .refuses = no_output_projection_refuses,
    .config = [](Config& c, double) { c.attention.output_projection = false; },
};
}  // namespace entries::fault

}  // namespace plumb
