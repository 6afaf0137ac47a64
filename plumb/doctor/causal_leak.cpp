// causal_leak: the future is visible.
#include <fmt/format.h>

#include <cmath>

#include "plumb/doctor/doctor.h"

namespace plumb {
namespace {
namespace causal_leak_cause {

std::optional<Finding> look(const Evidence& e) {
  // Where branches start at 0 (ReZero) the logits show nothing before training, and the weights do.
  const auto ahead = e.number("future_reach");
  if (e.flag("causal") != false && !(ahead && *ahead > 0)) return {};
  Finding f{.where = "the mask",
            .confidence = 0.95,
            .why = "Positions see tokens that come after them.",
            .clues = {}};
  if (e.flag("causal") == false) f.clues.push_back({"causal", 0, 1, 0});
  if (ahead && *ahead > 0) {
    f.why = fmt::format("In the first block positions see up to {:.0f} tokens ahead.", *ahead);
    f.clues.push_back({"future_reach", *ahead, 0, 0});
  }
  return f;
}

}  // namespace causal_leak_cause
}  // namespace

namespace entries::doctor {
extern constexpr DoctorEntry causal_leak = {
    .name = "causal_leak",
    .what = "the future is visible",
    .symptom = "The training loss falls far below what is possible; generated text is poor.",
    .test =
        "Another last token of a sequence changes logits before it, or attention of the first block gives "
        "weight to later keys.",
    .alike =
        "Norms over the sequence or the batch leak too, and so does a mask that only lowers scores: they are "
        "named instead.",
    .mend = "Mask keys after the query with -inf, on every path (training, evaluation, cache).",
    .needs = "causal",
    .shows = "too_good 1",
    .explains = "labels_shifted, evaluated_on_training_data",
    .look = causal_leak_cause::look,
};
}  // namespace entries::doctor

}  // namespace plumb
