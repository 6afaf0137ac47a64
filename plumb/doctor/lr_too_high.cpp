// lr_too_high: the learning rate is too high.
#include <fmt/format.h>

#include <cmath>

#include "plumb/doctor/doctor.h"

namespace plumb {
namespace {
namespace lr_too_high_cause {
constexpr double rise = 1, most_ratio = 1, safe = 10;

std::optional<Finding> look(const Evidence& e) {
  const auto ratio = e.number("first_update_ratio"), peak = e.number("lr_peak");
  const auto lr = e.numbers("ramp_lr"), loss = e.numbers("ramp_loss");
  double best = HUGE_VAL, breaks = HUGE_VAL;
  for (std::size_t i = 0; i < loss.size() && i < lr.size(); ++i) {
    if (loss[i] < best) best = loss[i];
    if (!(loss[i] < best + rise) && breaks == HUGE_VAL) breaks = lr[i];
  }
  if (peak && breaks <= *peak && (!ratio || *ratio > most_ratio))
    return Finding{
        .where = "train.lr",
        .confidence = 0.93,
        .why = fmt::format("The peak is {:.2g}, and the loss breaks away at {:.2g}.", *peak, breaks),
        .clues = {{"lr_peak", *peak, breaks, 0}, {"first_update_ratio", ratio.value_or(NAN), most_ratio, 0}},
        .patch = {{"train.lr", breaks / safe}}};
  return {};
}

}  // namespace lr_too_high_cause
}  // namespace

namespace entries::doctor {
extern constexpr DoctorEntry lr_too_high = {
    .name = "lr_too_high",
    .what = "the learning rate is too high",
    .symptom = "The loss jumps up or sits above the unigram from the first hundred steps on.",
    .test =
        "In a short training whose rate grows from 1/100 to 100 times the peak (the range test of Smith "
        "2015, arXiv 1506.01186), the loss has risen by 1 nat over its best before the peak is reached, and "
        "the first update at the peak is larger than the weights (unless no block has a gradient there).",
    .alike = "warmup_too_short is right at the peak, wrong before; loss_spike is one step.",
    .mend = "Lower train.lr to a tenth of where the loss breaks away.",
    .needs = "ramp_lr, ramp_loss, first_update_ratio",
    .shows = "stuck_unigram 4, nan_rising 1, seed_dependent 3, spikes 3, diverges 1",
    .explains =
        "loss_spike, updates_lost, attention_logits_exploding, constant_output, warmup_too_short, "
        "norm_on_identity_path",
    .look = lr_too_high_cause::look,
};
}  // namespace entries::doctor

}  // namespace plumb
