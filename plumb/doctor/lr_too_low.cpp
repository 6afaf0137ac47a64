// lr_too_low: the learning rate is too low.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plumb/doctor/doctor.h"

namespace plumb {
namespace {
namespace lr_too_low_cause {
constexpr double least = 1e-3, noise = 0.1;

std::optional<Finding> look(const Evidence& e) {
  const auto ratio = e.number("first_update_ratio"), peak = e.number("lr_peak");
  const auto lr = e.numbers("ramp_lr"), loss = e.numbers("ramp_loss");
  if (!ratio || !peak || loss.empty() || lr.size() != loss.size() || !(*ratio < least)) return {};
  // Batches differ: what is lower by less than this is not.
  double near = HUGE_VAL, beyond = HUGE_VAL, best_lr = lr.back();
  for (std::size_t i = 0; i < loss.size(); ++i) {
    double& best = lr[i] <= 10 * *peak ? near : beyond;
    if (loss[i] < best && lr[i] > 10 * *peak) best_lr = lr[i];
    best = std::min(best, loss[i]);
  }
  if (near < beyond - noise) return {};
  return Finding{
      .where = "train.lr",
      .confidence = 0.9,
      .why = fmt::format("An update at the peak changes the weights by {:.2g} of their size.", *ratio),
      .clues = {{"first_update_ratio", *ratio, least, 0}, {"best of ramp_lr", best_lr, 10 * *peak, 0}},
      .patch = {{"train.lr", best_lr / 10}}};
}

}  // namespace lr_too_low_cause
}  // namespace

namespace entries::doctor {
extern constexpr DoctorEntry lr_too_low = {
    .name = "lr_too_low",
    .what = "the learning rate is too low",
    .symptom = "The loss falls steadily and far too slowly.",
    .test =
        "The first update at the peak changes the matrices of the blocks by less than 1/1,000 of their size, "
        "and in a short training whose rate grows to 100 times the peak the loss is still falling fastest at "
        "the end.",
    .alike = "updates_lost changes nothing at all in most weights.",
    .mend = "Raise train.lr ten times and look again.",
    .needs = "first_update_ratio, ramp_loss",
    .shows = "stuck_uniform 7, slow 1",
    .explains = "",
    .look = lr_too_low_cause::look,
};
}  // namespace entries::doctor

}  // namespace plumb
