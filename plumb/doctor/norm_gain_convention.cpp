// norm_gain_convention: 1 + w read as w, or the reverse.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plumb/doctor/doctor.h"

namespace plumb {
namespace {
namespace norm_gain_convention_cause {

constexpr double most = 0.25;

std::optional<Finding> look(const Evidence& e) {
  const std::string norm = e.said("model.norm", "norm");
  if (norm != "layer" && norm != "rms") return {};
  auto gains = e.numbers("norm_gain_seen");
  std::erase_if(gains, [](double g) { return !std::isfinite(g); });
  if (gains.empty() || !std::ranges::all_of(gains, [](double g) { return std::abs(g - 1) > most; }))
    return {};
  return Finding{.where = "every norm",
                 .confidence = 0.93,
                 .why = fmt::format("The norms start with a gain of {:.3g} instead of 1.", middle(gains)),
                 .clues = {{"norm_gain_seen", middle(gains), 1, 0}}};
}

}  // namespace norm_gain_convention_cause
}  // namespace

namespace entries::doctor {
extern constexpr DoctorEntry norm_gain_convention = {
    .name = "norm_gain_convention",
    .what = "1 + w read as w, or the reverse",
    .symptom = "Right after loading or at the start all norms put out nothing, or twice as much.",
    .test =
        "The rms of a norm's output, with an input so large that eps does not count, is its gain: 1 at the "
        "start. Off by more than 0.25 at every place looked at.",
    .alike = "norm_eps_large shrinks small inputs only; here the size of the input does not matter.",
    .mend = "Apply gains as they were stored: gamma, or 1 + w (model.norm_gain).",
    .needs = "norm_gain_seen",
    .shows = "stuck_uniform 5, import_differs 1, first_loss 4",
    .explains =
        "norm_eps_large, constant_output, layer_unused, dead_ffn, init_too_small, kv_head_mapping, "
        "lr_too_low, no_output_projection, updates_lost, gradient_blocked_at_layer, underfitting",
    .look = norm_gain_convention_cause::look,
};
}  // namespace entries::doctor

}  // namespace plumb
