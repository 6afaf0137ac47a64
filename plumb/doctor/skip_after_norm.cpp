// skip_after_norm: the skip is taken after the norm.
#include <fmt/format.h>

#include <cmath>

#include "plumb/doctor/doctor.h"

namespace plumb {
namespace {
namespace skip_after_norm_cause {
constexpr double least = 0.1;

std::optional<Finding> look(const Evidence& e) {
  const auto normed = e.numbers("path_normed_skip");
  const bool post = e.said("model.placement", "placement") == "post";
  for (std::size_t i = 0; i < normed.size() && !post; ++i)
    if (normed[i] > least)
      return Finding{.where = sublayer(i),
                     .confidence = normed[i] > 0.5 ? 0.96 : 0.8,
                     .why = fmt::format("Behind {} the stream has {:.2g} of its own input, normalised.",
                                        sublayer(i), normed[i]),
                     .clues = {{"path_normed_skip", normed[i], least, 0}}};
  if (e.flag("skip_after_norm") == true)
    return Finding{.where = "every block",
                   .confidence = 0.9,
                   .why = "The skip path starts behind the norm.",
                   .clues = {{"skip_after_norm", 1, 0, 0}}};
  return {};
}

}  // namespace skip_after_norm_cause
}  // namespace

namespace entries::doctor {
extern constexpr DoctorEntry skip_after_norm = {
    .name = "skip_after_norm",
    .what = "the skip is taken after the norm",
    .symptom =
        "Training is slow and gets worse with depth: the stream is set back to one size at every branch.",
    .test = "The fit of the stream has more than 0.1 of the normalised stream before the sub-layer.",
    .alike = "norm_on_identity_path normalises behind the addition.",
    .mend = "Keep the input for the skip before it is normalised: x + f(N(x)), not N(x) + f(N(x)).",
    .needs = "path_normed_skip",
    .shows = "slow 5, worse_with_depth 2",
    .explains = "no_residual, constant_output, norm_on_identity_path, layer_unused",
    .look = skip_after_norm_cause::look,
};
}  // namespace entries::doctor

}  // namespace plumb
