// no_output_projection: the heads write to the stream directly.
#include <fmt/format.h>

#include <cmath>

#include "plumb/doctor/doctor.h"

namespace plumb {
namespace {
namespace no_output_projection_cause {

std::optional<Finding> look(const Evidence& e) {
  if (e.flag("output_projection") != false) return {};
  return Finding{.where = "every attention",
                 .confidence = 0.9,
                 .why = "No matrix stands between the heads and the stream.",
                 .clues = {{"output_projection", 0, 1, 0}},
                 .patch = e.setting("model.attention.output_projection")
                              ? Patch{{"model.attention.output_projection", true}}
                              : Patch{}};
}

}  // namespace no_output_projection_cause
}  // namespace

namespace entries::doctor {
extern constexpr DoctorEntry no_output_projection = {
    .name = "no_output_projection",
    .what = "the heads write to the stream directly",
    .symptom = "A little worse: each head can only write to its own channels.",
    .test = "What attention puts out is, bit for bit, what its heads made.",
    .alike = "",
    .mend = "Add the matrix that mixes the heads (model.attention.output_projection = true).",
    .needs = "output_projection",
    .shows = "slightly_worse 7",
    .explains = "",
    .look = no_output_projection_cause::look,
};
}  // namespace entries::doctor

}  // namespace plumb
