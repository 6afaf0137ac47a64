// updates_lost: updates are smaller than the parameters' precision.
#include <fmt/format.h>

#include <cmath>

#include "plumb/doctor/doctor.h"

namespace plumb {
namespace {
namespace updates_lost_cause {
constexpr double least = 0.9;

std::optional<Finding> look(const Evidence& e) {
  const auto kept = e.number("updates_kept");
  if (!kept || !(*kept < least)) return {};
  return Finding{.where = "the parameters",
                 .confidence = 0.93,
                 .why = fmt::format("Only {:.0f} % of the weights change in an update.", 100 * *kept),
                 .clues = {{"updates_kept", *kept, least, 0}},
                 .patch = e.text("train.precision") == "bf16_pure" || e.text("train.precision") == "fp16_pure"
                              ? Patch{{"train.precision", "fp32"}}
                              : Patch{}};
}

}  // namespace updates_lost_cause
}  // namespace

namespace entries::doctor {
extern constexpr DoctorEntry updates_lost = {
    .name = "updates_lost",
    .what = "updates are smaller than the parameters' precision",
    .symptom = "The loss stops falling early, most of all late in the schedule.",
    .test =
        "After one update at the peak, fewer than nine in ten of the weights that have a gradient have "
        "changed.",
    .alike = "lr_too_low changes all weights, by little.",
    .mend = "Keep master weights in fp32.",
    .needs = "updates_kept",
    .shows = "stuck_uniform 8, slow 3",
    .explains = "lr_too_low",
    .look = updates_lost_cause::look,
};
}  // namespace entries::doctor

}  // namespace plumb
