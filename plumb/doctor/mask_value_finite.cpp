// mask_value_finite: masked scores are a finite number instead of -inf.
#include <fmt/format.h>

#include <cmath>

#include "plumb/doctor/doctor.h"

namespace plumb {
namespace {
namespace mask_value_finite_cause {
constexpr double least = -50;

std::optional<Finding> look(const Evidence& e) {
  const auto value = e.number("mask_value");
  if (!value || !(*value > least)) return {};
  return Finding{.where = "the mask",
                 .confidence = 0.95,
                 .why = fmt::format("Masked scores are {:.3g}, which hides nothing.", *value),
                 .clues = {{"mask_value", *value, least, 0}}};
}

}  // namespace mask_value_finite_cause
}  // namespace

namespace entries::doctor {
extern constexpr DoctorEntry mask_value_finite = {
    .name = "mask_value_finite",
    .what = "masked scores are a finite number instead of -inf",
    .symptom =
        "The future leaks a little at first and more as scores grow; or a wholly masked row is uniform.",
    .test =
        "All scores ahead of the diagonal are one finite number above -50: exp(-50) is below what float can "
        "add to 1.",
    .alike = "causal_leak shows the scores of future keys themselves.",
    .mend = "Mask with -inf (or the lowest number of the format).",
    .needs = "mask_value",
    .shows = "too_good 3, nan_sudden 3, worse_with_length 6",
    .explains = "causal_leak",
    .look = mask_value_finite_cause::look,
};
}  // namespace entries::doctor

}  // namespace plumb
