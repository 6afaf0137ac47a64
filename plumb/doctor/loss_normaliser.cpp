// loss_normaliser: the loss scales with accumulation or padding.
#include <fmt/format.h>

#include <cmath>

#include "plumb/doctor/doctor.h"

namespace plumb {
namespace {
namespace loss_normaliser_cause {
constexpr double most = 0.02;

std::optional<Finding> look(const Evidence& e) {
  const auto ratio = e.number("loss_over_mean");
  if (!ratio || !(std::abs(*ratio - 1) > most)) return {};
  return Finding{.where = "the loss",
                 .confidence = 0.95,
                 .why = fmt::format("The loss is {:.3g} times the mean over its tokens.", *ratio),
                 .clues = {{"loss_over_mean", *ratio, 1, 0}}};
}

}  // namespace loss_normaliser_cause
}  // namespace

namespace entries::doctor {
extern constexpr DoctorEntry loss_normaliser = {
    .name = "loss_normaliser",
    .what = "the loss scales with accumulation or padding",
    .symptom = "The loss and its gradients change with train.accumulate or the padding.",
    .test = "The reported loss over the mean of -log p of the same logits is 1; off by more than 2 %.",
    .alike = "Auxiliary losses are not in it.",
    .mend = "Divide the sum over all micro-batches by the number of all counted tokens.",
    .needs = "loss_over_mean",
    .shows = "too_good 7, slightly_worse 12, first_loss 3",
    .explains = "init_too_large",
    .look = loss_normaliser_cause::look,
};
}  // namespace entries::doctor

}  // namespace plumb
