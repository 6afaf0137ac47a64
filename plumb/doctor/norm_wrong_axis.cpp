// norm_wrong_axis: statistics over the sequence, not over the features.
#include <fmt/format.h>

#include <cmath>

#include "plumb/doctor/doctor.h"

namespace plumb {
namespace {
namespace norm_wrong_axis_cause {

std::optional<Finding> look(const Evidence& e) {
  const std::string norm = e.said("model.norm", "norm");
  const bool by_feature = norm == "layer" || norm == "rms" || norm.empty();
  const auto couples = e.words("norm_couples"), places = e.words("norm_places");
  for (std::size_t i = 0; i < couples.size() && i < places.size(); ++i)
    if (couples[i] == "sequence" && by_feature)
      return Finding{
          .where = places[i],
          .confidence = 0.97,
          .why = fmt::format("At {} a change of one position changes what the norm makes of the others.",
                             places[i]),
          .clues = {{"norm_couples = sequence", 1, 0, 0}}};
  if (e.word("norm_axis") == "sequence" && norm != "instance")
    return Finding{.where = "the norms",
                   .confidence = 0.95,
                   .why = "The norm's statistics are taken over the sequence.",
                   .clues = {{"norm_axis = sequence", 1, 0, 0}}};
  return {};
}

}  // namespace norm_wrong_axis_cause
}  // namespace

namespace entries::doctor {
extern constexpr DoctorEntry norm_wrong_axis = {
    .name = "norm_wrong_axis",
    .what = "statistics over the sequence, not over the features",
    .symptom = "Training looks good, better than it should; generating one token at a time is poor.",
    .test = "One position's input of a norm is changed: the norm's outputs at other positions follow.",
    .alike =
        "Batch norm pools over positions on purpose and over sequences too; a leak of the mask leaves the "
        "norms alone.",
    .mend = "Take mean and variance over the last axis, the features.",
    .needs = "norm_couples",
    .shows = "too_good 4, train_eval_differ 4",
    .explains = "causal_leak, norm_gain_convention, norm_eps_large, norm_inverted",
    .look = norm_wrong_axis_cause::look,
};
}  // namespace entries::doctor

}  // namespace plumb
