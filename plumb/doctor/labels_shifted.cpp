// labels_shifted: targets do not belong to their inputs.
#include <fmt/format.h>

#include <cmath>

#include "plumb/doctor/doctor.h"

namespace plumb {
namespace {
namespace labels_shifted_cause {

std::optional<Finding> look(const Evidence& e) {
  const auto offset = e.number("target_offset");
  if (!offset || *offset == 1) return {};
  return Finding{.where = "the targets",
                 .confidence = 0.97,
                 .why = fmt::format("Each target is the token {:+.0f} from its input.", *offset),
                 .clues = {{"target_offset", *offset, 1, 0}}};
}

}  // namespace labels_shifted_cause
}  // namespace

namespace entries::doctor {
extern constexpr DoctorEntry labels_shifted = {
    .name = "labels_shifted",
    .what = "targets do not belong to their inputs",
    .symptom = "The loss is 0 (the target is the input), or higher than it should be (it is a later token).",
    .test = "Which later token of its own row each target is: always the next one.",
    .alike = "causal_leak lowers the loss through the mask.",
    .mend = "Shift once, by one token: x = tokens[:-1], y = tokens[1:].",
    .needs = "target_offset",
    .shows = "stuck_unigram 6, too_good 2, slightly_worse 16, first_loss 5",
    .explains = "evaluated_on_training_data",
    .look = labels_shifted_cause::look,
};
}  // namespace entries::doctor

}  // namespace plumb
