// warmup_too_short: the learning rate is at its peak too early.
#include <fmt/format.h>

#include <cmath>

#include "plumb/doctor/doctor.h"

namespace plumb {
namespace {
namespace warmup_too_short_cause {
constexpr double most = 1.5;

std::optional<Finding> look(const Evidence& e) {
  const auto first = e.number("lr_first"), said = e.number("lr_first_declared"), scale = e.number("lr_peak");
  const auto said_peak = e.value("train.lr");
  if (!first || !said || !scale || !said_peak || *said <= 0 || *said_peak <= 0) return {};
  const double early = *first / *said / (*scale / *said_peak);
  if (!(early > most)) return {};
  return Finding{.where = "train.warmup",
                 .confidence = 0.9,
                 .why = fmt::format(
                     "The first update is made with {:.3g} times the rate that the warm-up gives it.", early),
                 .clues = {{"lr_first / declared", early, most, 0}}};
}

}  // namespace warmup_too_short_cause
}  // namespace

namespace entries::doctor {
extern constexpr DoctorEntry warmup_too_short = {
    .name = "warmup_too_short",
    .what = "the learning rate is at its peak too early",
    .symptom = "A spike or a plateau in the first steps.",
    .test = "The first update's rate is more than 1.5 times what the config's warm-up asks for.",
    .alike = "lr_too_high is wrong at the peak too.",
    .mend = "Warm up over 100 steps or more (train.warmup).",
    .needs = "lr_first, lr_first_declared",
    .shows = "stuck_unigram 5, nan_rising 2, seed_dependent 1, spikes 4, diverges 2",
    .explains = "",
    .look = warmup_too_short_cause::look,
};
}  // namespace entries::doctor

}  // namespace plumb
