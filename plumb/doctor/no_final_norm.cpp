// no_final_norm: a Pre-LN stack without a norm before the head.
#include <fmt/format.h>

#include <cmath>

#include "plumb/doctor/doctor.h"

namespace plumb {
namespace {
namespace no_final_norm_cause {
constexpr double half = 0.5;

std::optional<Finding> look(const Evidence& e) {
  const std::string placement = e.said("model.placement", "placement");
  if (placement == "post" || placement == "none" || !e.has_scaling_norm()) return {};
  const auto exponent = e.number("head_input_exponent");
  if (exponent ? *exponent > half : e.flag("final_norm") == false && !placement.empty())
    return Finding{
        .where = "before the head",
        .confidence = exponent ? 0.97 : 0.9,
        .why = "The head reads the stream as it leaves the last block: it grows with every write.",
        .clues = {{exponent ? "head_input_exponent" : "final_norm", exponent.value_or(0), half, 0}},
        .patch = e.setting("model.final_norm") ? Patch{{"model.final_norm", true}} : Patch{}};
  return {};
}

}  // namespace no_final_norm_cause
}  // namespace

namespace entries::doctor {
extern constexpr DoctorEntry no_final_norm = {
    .name = "no_final_norm",
    .what = "a Pre-LN stack without a norm before the head",
    .symptom =
        "The logits grow with depth and with training; the loss spikes or stays higher than it should.",
    .test =
        "What leaves the last block is multiplied by 1,000: behind a norm the head reads the same (exponent "
        "0), without one 1,000 times as much (1).",
    .alike =
        "no_final_norm is not named of Post-LN, whose last block ends in a norm, nor of models without "
        "norms.",
    .mend = "Put a norm between the last block and the head (model.final_norm = true).",
    .needs = "head_input_exponent",
    .shows = "nan_rising 5, spikes 6, diverges 6, import_differs 6, first_loss 6",
    .explains = "",
    .look = no_final_norm_cause::look,
};
}  // namespace entries::doctor

}  // namespace plumb
