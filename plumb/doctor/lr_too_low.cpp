// lr_too_low: the learning rate is too low.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plumb/doctor/doctor.h"

namespace plumb {
namespace {
namespace lr_too_low_cause {
constexpr double least = 1e-3, noise = 0.1, near_unigram = 0.15, spare = 1.1, few = 300;

// Where the rates became too high, the loss rose: what follows says nothing of the way.
constexpr double risen = 0.15;

bool still_falling(const std::vector<double>& loss) {
  constexpr std::size_t apart = 5, window = 3;
  constexpr double by = 0.3;
  if (loss.size() < apart + window) return false;
  double fall = 0;
  for (std::size_t i = loss.size() - window; i < loss.size(); ++i)
    fall += (loss[i - apart] - loss[i]) / window;
  return fall > by;
}

// How far an update goes depends on the rate alone (Adam), so that the sum of the rates is the way that a run can go. The ramp
// says how much of it was needed to learn how often each token comes; a run that has no more learns no more.
std::optional<Finding> too_short_a_way(const Evidence& e, const std::vector<double>& lr,
                                       const std::vector<double>& loss) {
  const auto sum = e.number("lr_sum"), unigram = e.number("baseline_unigram"), steps = e.value("train.steps");
  if (!sum || !unigram || !steps || *steps < few || e.text("train.optimizer") != "adamw") return {};
  double way = 0, lowest = HUGE_VAL;
  bool reached = false;
  for (std::size_t i = 0; i < loss.size() && !reached; ++i) {
    way += lr[i], lowest = std::min(lowest, loss[i]);
    if (!(loss[i] < lowest + risen)) return {};
    reached = loss[i] < *unigram + near_unigram;
  }
  // Where it never came so far, more is needed than there was if the loss was falling to the end.
  if ((!reached && !still_falling(loss)) || !(*sum < spare * way)) return {};
  return Finding{
      .where = "train.lr",
      .confidence = 0.8,
      .why = fmt::format(
          "All rates of the schedule make {:.2g}, and {:.2g} {} needed to come to the unigram's loss.", *sum,
          way, reached ? "was" : "or more is"),
      .clues = {{"lr_sum", *sum, spare * way, 0}},
      .patch = {{"train.lr", e.number("lr_peak").value_or(0) * 10}}};
}

std::optional<Finding> look(const Evidence& e) {
  const auto ratio = e.number("first_update_ratio"), peak = e.number("lr_peak");
  const auto lr = e.numbers("ramp_lr"), loss = e.numbers("ramp_loss");
  if (!ratio || !peak || loss.empty() || lr.size() != loss.size()) return {};
  if (!(*ratio < least)) return too_short_a_way(e, lr, loss);
  // Batches differ: what is lower by less than this is not.
  double near = HUGE_VAL, beyond = HUGE_VAL, best_lr = lr.back();
  for (std::size_t i = 0; i < loss.size(); ++i) {
    double& best = lr[i] <= 10 * *peak ? near : beyond;
    if (loss[i] < best && lr[i] > 10 * *peak) best_lr = lr[i];
    best = std::min(best, loss[i]);
  }
  if (near < beyond - noise) return too_short_a_way(e, lr, loss);
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
        "the end. Or the sum of all rates of the schedule is below 1.1 times the sum that this training "
        "needed to "
        "come within 0.15 nats of the unigram (measured on 29 configs: the sum needed lies between 0.05 and "
        "0.12 "
        "whatever the depth, placement and init; runs with less stayed above the unigram).",
    .alike = "updates_lost changes nothing at all in most weights.",
    .mend = "Raise train.lr ten times and look again.",
    .needs = "first_update_ratio, ramp_loss",
    .shows = "stuck_uniform 7, slow 1",
    .explains = "",
    .look = lr_too_low_cause::look,
};
}  // namespace entries::doctor

}  // namespace plumb
