// head_zero: the head is zero and stays zero.
#include <fmt/format.h>

#include <cmath>

#include "plumb/doctor/doctor.h"

namespace plumb {
namespace {
namespace head_zero_cause {
constexpr double least = 0.75;  // of the learning rate that the config gives it

std::optional<Finding> look(const Evidence& e) {
  const auto logits = e.number("logit_rms"), read = e.number("head_input_rms"),
             moves = e.number("moves_by_role", "readout");
  const double asked = e.value("train.lr_scale.readout").value_or(1);
  if (logits && *logits == 0 && read && *read > 0 && moves && *moves < least * asked)
    return Finding{.where = "the head",
                   .confidence = 0.97,
                   .why = fmt::format(
                       "The logits are all 0, and the head learns at {:.2g} of the learning rate.", *moves),
                   .clues = {{"logit_rms", 0, 0, 0}, {"moves_by_role.readout", *moves, least * asked, 0}}};
  const Series std = e.series("logit_std");
  if (!std.empty() && std.steps.back() >= 10 && std.last() == 0)
    return Finding{.where = "the head",
                   .confidence = 0.9,
                   .why = "The logits are all equal, also after training began.",
                   .clues = {{"logit_std", 0, 0, std.steps.back()}}};
  return {};
}

}  // namespace head_zero_cause
}  // namespace

namespace entries::doctor {
extern constexpr DoctorEntry head_zero = {
    .name = "head_zero",
    .what = "the head is zero and stays zero",
    .symptom = "All logits are equal at every step; the loss is ln V and does not move.",
    .test =
        "The logits are 0 although the head reads something, and with a gradient that is known the head "
        "moves by "
        "less than three quarters of what its learning rate is; or, in a trace, logits without deviation "
        "after ten steps.",
    .alike = "A head that starts at zero and learns (zero_last, Fixup) is healthy.",
    .mend = "Let the head learn: draw it, and give it a learning rate.",
    .needs = "logit_rms, moves_by_role",
    .shows = "stuck_uniform 1",
    .explains =
        "constant_output, init_too_small, lr_too_low, underfitting, output_normalised, "
        "gradient_blocked_at_layer, updates_lost",
    .look = head_zero_cause::look,
};
}  // namespace entries::doctor

}  // namespace plumb
