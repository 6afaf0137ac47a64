// no_residual: no identity path around a sub-layer.
#include <fmt/format.h>

#include <cmath>

#include "plumb/doctor/doctor.h"

namespace plumb {
namespace {
namespace no_residual_cause {

constexpr double least = 0.9;

Patch is_setting(const Evidence& e) {
  if (e.text("model.residual") == "none") return {{"model.residual", "add"}};
  return {};
}

std::optional<Finding> look(const Evidence& e) {
  // Behind each addition a squashing function (DyT) has a slope of its own, which the fit takes for the path's share.
  const std::string norm = e.said("model.norm", "norm");
  if (e.said("model.placement", "placement") == "post" && norm != "layer" && norm != "rms") return {};
  const auto skip = e.numbers("path_skip"), normed = e.numbers("path_normed_skip"),
             sum = e.numbers("path_normed_sum");
  for (std::size_t i = 0; i < skip.size() && i < normed.size() && i < sum.size(); ++i)
    if (skip[i] < least && std::abs(normed[i]) < 1 - least && std::abs(sum[i]) < 1 - least)
      return Finding{
          .where = sublayer(i),
          .confidence = skip[i] < 0.5 ? 0.97 : 0.8,
          .why = fmt::format("Behind {} only {:.2g} of the stream before it is left.", sublayer(i), skip[i]),
          .clues = {{"path_skip", skip[i], least, 0}},
          .patch = is_setting(e)};
  if (e.word("residual") == "none" && !e.has("path_skip"))
    return Finding{.where = "every block",
                   .confidence = 0.9,
                   .why = "No way leads around the branches.",
                   .clues = {{"residual = none", 1, 0, 0}}};
  return {};
}

}  // namespace no_residual_cause
}  // namespace

namespace entries::doctor {
extern constexpr DoctorEntry no_residual = {
    .name = "no_residual",
    .what = "no identity path around a sub-layer",
    .symptom =
        "With more than a few layers the loss stays at the unigram, and all positions predict the same.",
    .test =
        "The stream behind each sub-layer is fitted with the stream before it, its write and both "
        "normalised; plain addition has exactly 1 of the stream. Below 0.9 (the fit is exact to 2 %) a part "
        "of the path is missing.",
    .alike =
        "A norm on the path (norm_on_identity_path) has 1 of a normalised sum; a skip behind the norm "
        "(skip_after_norm) has 1 of a normalised stream.",
    .mend = "Add the sub-layer's input to its output: x + f(N(x)).",
    .needs = "path_skip",
    .shows = "stuck_unigram 3, worse_with_depth 1",
    .explains = "constant_output, gradient_blocked_at_layer, layer_unused, norm_eps_large",
    .look = no_residual_cause::look,
};
}  // namespace entries::doctor

}  // namespace plumb
