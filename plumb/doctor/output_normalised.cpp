// output_normalised: a norm or a second softmax on the logits.
#include <fmt/format.h>

#include <cmath>

#include "plumb/doctor/doctor.h"

namespace plumb {
namespace {
namespace output_normalised_cause {
constexpr double half = 0.5, off = 0.1;

std::optional<Finding> look(const Evidence& e) {
  const auto rows = e.number("probability_rows"), exponent = e.number("logit_exponent"),
             rms = e.number("logit_rms");
  if (rows && *rows > half)
    return Finding{.where = "the logits",
                   .confidence = 0.97,
                   .why = "The logits are probabilities already: each row adds up to 1.",
                   .clues = {{"probability_rows", *rows, half, 0}}};
  if (const auto scale = e.number("logit_scale"); scale && std::abs(*scale - 1) > off)
    return Finding{
        .where = "the logits",
        .confidence = 0.85,
        .why = fmt::format("The logits are {:.2g} times what the head's matrix makes of its input.", *scale),
        .clues = {{"logit_scale", *scale, 1, 0}}};
  if (exponent && rms && *rms > 0 && *exponent < half && e.value("model.logit_softcap").value_or(0) == 0)
    return Finding{.where = "the logits",
                   .confidence = 0.85,
                   .why = "The logits do not follow the size of what the head reads.",
                   .clues = {{"logit_exponent", *exponent, half, 0}}};
  return {};
}

}  // namespace output_normalised_cause
}  // namespace

namespace entries::doctor {
extern constexpr DoctorEntry output_normalised = {
    .name = "output_normalised",
    .what = "a norm or a second softmax on the logits",
    .symptom =
        "The loss starts at ln V and hardly falls: the best that bounded logits can say is close to uniform.",
    .test =
        "Rows of the logits are probabilities (none negative, a sum of 1), or four times the head's input "
        "makes less than twice the logits, or the logits are not what the head's matrix makes of its input "
        "(off by more than a tenth, by least squares).",
    .alike =
        "head_zero has logits that are all equal. A soft cap of logits (model.logit_softcap) bends large "
        "logits only.",
    .mend = "Give the loss the raw logits: it takes the softmax itself.",
    .needs = "logit_exponent, probability_rows, logit_scale",
    .shows = "stuck_uniform 2, import_differs 8",
    .explains = "init_too_small, constant_output, underfitting, lr_too_low",
    .look = output_normalised_cause::look,
};
}  // namespace entries::doctor

}  // namespace plumb
