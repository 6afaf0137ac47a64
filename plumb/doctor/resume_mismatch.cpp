// resume_mismatch: optimiser state, step counter or data order is not restored.
#include <fmt/format.h>

#include <cmath>

#include "plumb/doctor/doctor.h"

namespace plumb {
namespace {
namespace resume_mismatch_cause {

std::optional<Finding> look(const Evidence& e) {
  if (e.flag("resume_repeats") != false) return {};
  return Finding{.where = "resume",
                 .confidence = 0.95,
                 .why = "A run that is interrupted and resumed ends in other parameters.",
                 .clues = {{"resume_repeats", 0, 1, 0}}};
}

}  // namespace resume_mismatch_cause
}  // namespace

namespace entries::doctor {
extern constexpr DoctorEntry resume_mismatch = {
    .name = "resume_mismatch",
    .what = "optimiser state, step counter or data order is not restored",
    .symptom = "A jump of the loss after each resume.",
    .test = "A few steps in one piece and the same steps with an interruption end in other parameters.",
    .alike = "nondeterministic differs without an interruption too.",
    .mend = "Save and restore moments, step counter, schedule and the position in the data.",
    .needs = "resume_repeats",
    .shows = "spikes 7, resume_departs 1",
    .explains = "",
    .look = resume_mismatch_cause::look,
};
}  // namespace entries::doctor

}  // namespace plumb
