// constant_output: the output does not depend on the context.
#include <fmt/format.h>

#include <cmath>

#include "plumb/doctor/doctor.h"

namespace plumb {
namespace {
namespace constant_output_cause {
constexpr double least = 1e-3, least_kl = 1e-5, most_offset = 0.1;

std::optional<Finding> look(const Evidence& e) {
  const auto variation = e.number("output_variation"), logits = e.number("logit_rms");
  if (variation && logits && *logits > 0 && *variation < least)
    return Finding{.where = "the head",
                   .confidence = 0.8,
                   .why = "All positions are told the same.",
                   .clues = {{"output_variation", *variation, least, 0}}};
  if (const auto offset = e.number("head_offset"); offset && *offset > most_offset)
    return Finding{.where = "the head",
                   .confidence = 0.75,
                   .why = fmt::format("{:.0f} % of the logits stay when the stream is 0: something that does "
                                      "not depend on the text is added behind the blocks.",
                                      100 * *offset),
                   .clues = {{"head_offset", *offset, most_offset, 0}}};
  const Course course = course_of(e);
  const Series kl = e.series("adjacent_kl");
  if (course.known && course.stuck && !kl.empty() && kl.last() < least_kl)
    return Finding{.where = "the head",
                   .confidence = 0.6,
                   .why = "Adjacent positions predict the same, and the loss is the unigram's.",
                   .clues = {{"adjacent_kl", kl.last(), least_kl, kl.steps.back()},
                             {"loss", course.last, e.number("baseline_unigram").value_or(course.first),
                              course.steps - 1}}};
  return {};
}

}  // namespace constant_output_cause
}  // namespace

namespace entries::doctor {
extern constexpr DoctorEntry constant_output = {
    .name = "constant_output",
    .what = "the output does not depend on the context",
    .symptom = "The loss ends at the unigram; every position predicts the same.",
    .test =
        "The logits' deviation over positions is below 1e-3 of their deviation; or more than a tenth of them "
        "is there when the last block's output is set to 0; or, in a trace, the KL of adjacent predictions "
        "is below "
        "1e-5 when the loss is stuck at the unigram.",
    .alike = "It follows from many deeper causes, which are named instead.",
    .mend = "Look at the stream block by block: where do the positions become alike?",
    .needs = "output_variation, adjacent_kl",
    .shows = "stuck_unigram 2",
    .explains = "underfitting, layer_unused, lr_too_low",
    .look = constant_output_cause::look,
};
}  // namespace entries::doctor

}  // namespace plumb
