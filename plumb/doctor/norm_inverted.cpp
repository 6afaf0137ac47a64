// norm_inverted: the norm multiplies by the deviation where it should divide.
#include <fmt/format.h>

#include <cmath>

#include "plumb/doctor/doctor.h"

namespace plumb {
namespace {
namespace norm_inverted_cause {
constexpr double most = 0.1;

std::optional<Finding> look(const Evidence& e) {
  const std::string norm = e.said("model.norm", "norm");
  if (norm != "layer" && norm != "rms") return {};
  const auto exponent = e.numbers("norm_exponent");
  const auto places = e.words("norm_places");
  for (std::size_t i = 0; i < exponent.size() && i < places.size(); ++i)
    if (std::isfinite(exponent[i]) && std::abs(exponent[i]) > most)
      return Finding{.where = places[i],
                     .confidence = 0.97,
                     .why = fmt::format("The output of {} goes with the {:.2g}th power of its input's size.",
                                        places[i], exponent[i]),
                     .clues = {{"norm_exponent", exponent[i], most, 0}}};
  return {};
}

}  // namespace norm_inverted_cause
}  // namespace

namespace entries::doctor {
extern constexpr DoctorEntry norm_inverted = {
    .name = "norm_inverted",
    .what = "the norm multiplies by the deviation where it should divide",
    .symptom = "Activations shrink or grow by powers with depth; the loss hardly moves.",
    .test =
        "A norm's input is made 1,000 and 1,000,000 times as large: what follows is the same (exponent 0) "
        "where it divides. Above 0.1 in a LayerNorm or RMSNorm it does not.",
    .alike = "norm_eps_large follows small inputs only: its exponent is 0 once the input is large.",
    .mend = "Divide by sqrt(var + eps): rsqrt, not sqrt.",
    .needs = "norm_exponent",
    .shows = "stuck_uniform 4, stuck_unigram 8, worse_with_depth 8",
    .explains =
        "init_too_small, norm_eps_large, norm_gain_convention, constant_output, layer_unused, "
        "gradient_blocked_at_layer, dead_ffn, norm_eps_lost",
    .look = norm_inverted_cause::look,
};
}  // namespace entries::doctor

}  // namespace plumb
