// causal_leak: the future is visible.
#include <fmt/format.h>

#include <cmath>

#include "plumb/doctor/doctor.h"

namespace plumb {
namespace {
namespace causal_leak_cause {

std::optional<Finding> look(const Evidence& e) {
  if (e.flag("causal") != false) return {};
  Finding f{.where = "the mask",
            .confidence = 0.95,
            .why = "Positions see tokens that come after them.",
            .clues = {{"causal", 0, 1, 0}}};
  if (const auto reach = e.number("future_reach"); reach && *reach > 0) {
    f.why = fmt::format("In the first block positions see up to {:.0f} tokens ahead.", *reach);
    f.clues.push_back({"future_reach", *reach, 0, 0});
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
    .test = "Another last token of a sequence changes logits before it.",
    .alike =
        "Norms over the sequence or the batch leak too, and so does a mask that only lowers scores: they are "
        "named instead.",
    .mend = "Mask keys after the query with -inf, on every path (training, evaluation, cache).",
    .needs = "causal",
    .explains = "labels_shifted, evaluated_on_training_data",
    .look = causal_leak_cause::look,
};
}  // namespace entries::doctor

}  // namespace plumb
