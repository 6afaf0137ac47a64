// init_too_small: the weights start far too small.
#include <fmt/format.h>

#include <cmath>

#include "plumb/doctor/doctor.h"

namespace plumb {
namespace {
namespace init_too_small_cause {
constexpr double least = 0.03, least_over = 0.5;

std::optional<Finding> look(const Evidence& e) {
  const auto gain = e.number("weight_gain");
  const auto over = drawn_over_asked(e);
  const bool below = over && *over < least_over;
  if (!gain || !(*gain < least || below)) return {};
  Finding f{.where = "all weights",
            .confidence = 0.95,
            .why = fmt::format("The matrices make what they read {:.2g} times as large.", *gain),
            .clues = {{"weight_gain", *gain, least, 0}}};
  if (below) f.clues.push_back({"matrix_rms / init.std", *over, least_over, 0});
  if (e.text("init.scheme") == "normal" || e.text("init.scheme") == "gpt2") f.patch = {{"init.std", 0.02}};
  return f;
}

}  // namespace init_too_small_cause
}  // namespace

namespace entries::doctor {
extern constexpr DoctorEntry init_too_small = {
    .name = "init_too_small",
    .what = "the weights start far too small",
    .symptom = "The loss starts at ln V exactly and leaves it late: nothing gets through.",
    .test =
        "The middle of rms(W) sqrt(fan_in) over the matrices of the blocks is below 0.03: a matrix with 1 "
        "keeps the variance, 0.02 at d_model = 32 has 0.11. Or the matrices are less than half as large as "
        "init.std says.",
    .alike = "head_zero has weights of the usual size in the blocks.",
    .mend = "Draw with std 0.02, or 1/sqrt(fan_in).",
    .needs = "weight_gain",
    .shows = "stuck_uniform 3, slow 6",
    .explains =
        "norm_eps_large, constant_output, lr_too_high, lr_too_low, layer_unused, updates_lost, "
        "gradient_blocked_at_layer, residual_scale_wrong, attention_unscaled, attention_overscaled",
    .look = init_too_small_cause::look,
};
}  // namespace entries::doctor

}  // namespace plumb
