// decay_on_gains: weight decay on norm gains and biases.
#include <fmt/format.h>

#include <cmath>

#include "plumb/doctor/doctor.h"

namespace plumb {
namespace {
namespace decay_on_gains_cause {

std::optional<Finding> look(const Evidence& e) {
  const auto others = e.number("decay_of_others");
  if (!others || !(*others > 0)) return {};
  return Finding{.where = "gains and biases",
                 .confidence = 0.95,
                 .why = fmt::format("Parameters that are no matrices shrink by {:.2g} an update.", *others),
                 .clues = {{"decay_of_others", *others, 0, 0}}};
}

}  // namespace decay_on_gains_cause
}  // namespace

namespace entries::doctor {
extern constexpr DoctorEntry decay_on_gains = {
    .name = "decay_on_gains",
    .what = "weight decay on norm gains and biases",
    .symptom = "Gains shrink while training; a little worse.",
    .test = "With zero gradients an update changes what decays, and nothing else: gains or biases do.",
    .alike = "",
    .mend = "Leave out of decay whatever is no matrix, by role.",
    .needs = "decay_of_others",
    .shows = "slightly_worse 4",
    .explains = "",
    .look = decay_on_gains_cause::look,
};
}  // namespace entries::doctor

}  // namespace plumb
