// lr_too_low: the learning rate is too low.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plumb/doctor/doctor.h"

namespace plumb {
namespace {
namespace lr_too_low_cause {
constexpr double least = 1e-3;

std::optional<Finding> look(const Evidence& e) {
  const auto ratio = e.number("first_update_ratio"), peak = e.number("lr_peak");
  const auto lr = e.numbers("ramp_lr"), loss = e.numbers("ramp_loss");
  if (!ratio || !peak || loss.empty() || lr.size() != loss.size() || !(*ratio < least)) return {};
  const auto at = std::ranges::min_element(loss) - loss.begin();
  if (!(lr[static_cast<std::size_t>(at)] > 10 * *peak)) return {};
  return Finding{
      .where = "train.lr",
      .confidence = 0.9,
      .why = fmt::format("An update at the peak changes the weights by {:.2g} of their size.", *ratio),
      .clues = {{"first_update_ratio", *ratio, least, 0},
                {"best of ramp_lr", lr[static_cast<std::size_t>(at)], 10 * *peak, 0}},
      .patch = {{"train.lr", lr[static_cast<std::size_t>(at)] / 10}}};
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
    .explains = "",
    .look = lr_too_low_cause::look,
};
}  // namespace entries::doctor

}  // namespace plumb
