// loss_spike: a spike of the loss.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plumb/doctor/doctor.h"

namespace plumb {
namespace {
namespace loss_spike_cause {
constexpr double jump = 3, least = 0.5, deviations = 10;
constexpr std::size_t window = 30;

std::optional<Finding> look(const Evidence& e) {
  const auto most_lr = e.number("lr_most"), peak = e.number("lr_peak");
  if (most_lr && peak && *most_lr > jump * *peak)
    return Finding{
        .where = "the schedule",
        .confidence = 0.9,
        .why = fmt::format("One update is made with {:.3g} times the peak's rate.", *most_lr / *peak),
        .clues = {{"lr_most", *most_lr, jump * *peak, 0}}};
  const Series s = e.series("loss");
  for (std::size_t i = window; i < s.values.size(); ++i) {
    std::vector<double> before(s.values.begin() + static_cast<std::ptrdiff_t>(i - window),
                               s.values.begin() + static_cast<std::ptrdiff_t>(i));
    // The median is no lower than the lowest, which is quicker to find.
    if (s.values[i] <= *std::ranges::min_element(before) + least) continue;
    const double m = middle(before);
    for (double& v : before) v = std::abs(v - m);
    const double limit = m + std::max(least, deviations * middle(before));
    if (!(s.values[i] > limit)) continue;
    // Of a run that goes on it is too early to say.
    const bool told = s.values.size() > i + window, back = told && s.last() < m + least;
    return Finding{.where = fmt::format("step {}", s.steps[i]),
                   .confidence = 0.8,
                   .why = fmt::format("The loss jumps from {:.3g} to {:.3g}{}.", m, s.values[i],
                                      !told  ? ""
                                      : back ? " and comes back"
                                             : " and does not come back"),
                   .clues = {{"loss", s.values[i], limit, s.steps[i]}}};
  }
  return {};
}

}  // namespace loss_spike_cause
}  // namespace

namespace entries::doctor {
extern constexpr DoctorEntry loss_spike = {
    .name = "loss_spike",
    .what = "a spike of the loss",
    .symptom = "The loss jumps and comes back, or does not.",
    .test =
        "The loss of a step is more than 10 median deviations and 0.5 nats above the median of the 30 "
        "before; or the schedule has a rate of more than 3 times its peak.",
    .alike = "lr_too_high spikes again and again.",
    .mend = "Clip gradients, lower beta2, look at the batch of that step.",
    .needs = "loss",
    .shows = "seed_dependent 6, spikes 1",
    .explains = "",
    .look = loss_spike_cause::look,
};
}  // namespace entries::doctor

}  // namespace plumb
