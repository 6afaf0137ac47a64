// updates_lost: updates are smaller than the parameters' precision.
#include <fmt/format.h>

#include <cmath>

#include "plumb/doctor/doctor.h"

namespace plumb {
namespace {
namespace updates_lost_cause {
constexpr double least = 0.9, half = 0.5;

std::optional<Finding> look(const Evidence& e) {
  const auto at_peak = e.number("updates_kept"), late = e.number("updates_kept_late");
  const bool lost = at_peak && *at_peak < least, lost_later = !lost && late && *late < least;
  if (!lost && !lost_later) return {};
  // In fp32 only a rate that is far too low is lost: that is what is wrong then.
  if (e.number("weights_in_bf16").value_or(1) < half && e.text("train.precision") != "fp16_pure") return {};
  const double kept = lost ? *at_peak : *late;
  return Finding{.where = "the parameters",
                 .confidence = lost ? 0.93 : 0.8,
                 .why = fmt::format("Only {:.0f} % of the weights change in an update{}.", 100 * kept,
                                    lost ? "" : " when four fifths of the run are over"),
                 .clues = {{lost ? "updates_kept" : "updates_kept_late", kept, least, 0}},
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
        "After one update at the peak, or at the rate that the schedule has when four fifths of the run are "
        "over, "
        "fewer than nine in ten of the weights that have a gradient have changed.",
    .alike = "lr_too_low changes all weights, by little.",
    .mend = "Keep master weights in fp32.",
    .needs = "updates_kept",
    .shows = "stuck_uniform 8, slow 3",
    .explains = "lr_too_low",
    .look = updates_lost_cause::look,
};
}  // namespace entries::doctor

}  // namespace plumb
