// norm_eps_large: eps is of the order of the norm's input variance.
#include <fmt/format.h>

#include <cmath>

#include "plumb/doctor/doctor.h"

namespace plumb {
namespace {
namespace norm_eps_large_cause {
constexpr double most = 0.5;

std::optional<Finding> look(const Evidence& e) {
  const std::string norm = e.said("model.norm", "norm");
  // What a branch puts out before training is small by itself, and its norm has no part in that.
  if ((norm != "layer" && norm != "rms") || e.said("model.placement", "placement") == "post_branch")
    return {};
  const auto ratio = e.numbers("norm_eps_over_var");
  const auto places = e.words("norm_places");
  for (std::size_t i = 0; i < ratio.size() && i < places.size(); ++i)
    if (ratio[i] > most)
      return Finding{.where = places[i],
                     .confidence = ratio[i] > 10 ? 0.95 : 0.8,
                     .why = fmt::format("At {} eps is {:.3g} times the variance of what the norm reads.",
                                        places[i], ratio[i]),
                     .clues = {{"norm_eps_over_var", ratio[i], most, 0}},
                     .patch = e.setting("model.norm_eps") ? Patch{{"model.norm_eps", 1e-5}} : Patch{}};
  return {};
}

}  // namespace norm_eps_large_cause
}  // namespace

namespace entries::doctor {
extern constexpr DoctorEntry norm_eps_large = {
    .name = "norm_eps_large",
    .what = "eps is of the order of the norm's input variance",
    .symptom =
        "Norms shrink what they read: training is slow, most of all in the first blocks, where the stream is "
        "small.",
    .test =
        "eps over the input's variance, from how much larger the output becomes when the input is 1,000,000 "
        "times as large: (ratio)^2 - 1. At 0.5 the output is 18 % too small; the models of the sources stay "
        "below 0.1 with eps = 1e-5.",
    .alike = "init_too_small makes the variance small instead of eps large: the weights tell.",
    .mend = "Lower eps (1e-5, or 1e-6), or raise what the norm reads.",
    .needs = "norm_eps_over_var",
    .shows = "slightly_worse 14, slow 4, worse_with_depth 9, import_differs 5",
    .explains = "lr_too_low, constant_output, layer_unused, underfitting",
    .look = norm_eps_large_cause::look,
};
}  // namespace entries::doctor

}  // namespace plumb
