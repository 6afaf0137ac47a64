// clip_after_step: gradients are clipped after the update.
#include <fmt/format.h>

#include <cmath>

#include "plumb/doctor/doctor.h"

namespace plumb {
namespace {
namespace clip_after_step_cause {

std::optional<Finding> look(const Evidence& e) {
  const auto seen = e.number("clip_seen"), said = e.number("clip_declared");
  if (!seen || !said || !(*said < 0.5) || !(*seen > 2 * *said)) return {};
  return Finding{
      .where = "the update",
      .confidence = 0.95,
      .why = fmt::format("{:.3g} of a gradient reaches the optimiser where the clip leaves {:.3g}.", *seen,
                         *said),
      .clues = {{"clip_seen", *seen, *said, 0}}};
}

}  // namespace clip_after_step_cause
}  // namespace

namespace entries::doctor {
extern constexpr DoctorEntry clip_after_step = {
    .name = "clip_after_step",
    .what = "gradients are clipped after the update",
    .symptom = "Clipping is on and changes nothing.",
    .test = "An optimiser is given a gradient far longer than the limit: its first moment keeps all of it.",
    .alike = "",
    .mend = "Clip between backward and the optimiser's step.",
    .needs = "clip_seen, clip_declared",
    .shows = "nan_rising 3, slightly_worse 13, spikes 2, diverges 3",
    .explains = "",
    .look = clip_after_step_cause::look,
};
}  // namespace entries::doctor

}  // namespace plumb
