// norm_eps_lost: eps or the sum of squares is lost in low precision.
#include <fmt/format.h>

#include <cmath>

#include "plumb/doctor/doctor.h"

namespace plumb {
namespace {
namespace norm_eps_lost_cause {
constexpr double least = 0.5;

std::optional<Finding> look(const Evidence& e) {
  const std::string norm = e.said("model.norm", "norm");
  if (norm != "layer" && norm != "rms") return {};
  const auto large = e.numbers("norm_of_large");
  for (const double v : large)
    if (v < least)
      return Finding{
          .where = "the norms",
          .confidence = 0.95,
          .why = "An input of rms 300 comes out of the norm far too small: its squares overflow.",
          .clues = {{"norm_of_large", v, least, 0}},
          .patch = e.setting("train.norm_reduce") ? Patch{{"train.norm_reduce", "fp32"}} : Patch{}};
  if (e.flag("norm_of_constant_finite") == false)
    return Finding{.where = "the norms",
                   .confidence = 0.9,
                   .why = "A constant row makes the norm divide by zero: eps is lost.",
                   .clues = {{"norm_of_constant_finite", 0, 1, 0}},
                   .patch = e.setting("model.norm_eps") ? Patch{{"model.norm_eps", 1e-5}} : Patch{}};
  return {};
}

}  // namespace norm_eps_lost_cause
}  // namespace

namespace entries::doctor {
extern constexpr DoctorEntry norm_eps_lost = {
    .name = "norm_eps_lost",
    .what = "eps or the sum of squares is lost in low precision",
    .symptom = "NaN at rows that are constant, or norms that put out zeros where activations are large.",
    .test =
        "One row of a norm's input is made constant: 0 / sqrt(0 + eps) is finite unless eps is 0 in that "
        "format. And the input is scaled to rms 300, whose squares add up to more than 65,504: the output "
        "should be what it was.",
    .alike = "norm_eps_large is the opposite: eps is too large.",
    .mend = "Add up in fp32 (train.norm_reduce = \"fp32\") and choose an eps that the format holds.",
    .needs = "norm_of_constant_finite, norm_of_large",
    .shows = "nan_sudden 2",
    .explains = "non_finite, norm_gain_convention, updates_lost, norm_on_identity_path",
    .look = norm_eps_lost_cause::look,
};
}  // namespace entries::doctor

}  // namespace plumb
