// nondeterministic: the same seed gives other numbers.
#include <fmt/format.h>

#include <cmath>

#include "plumb/doctor/doctor.h"

namespace plumb {
namespace {
namespace nondeterministic_cause {

std::optional<Finding> look(const Evidence& e) {
  const auto order = e.flag("order_repeats"), grad = e.flag("gradient_repeats");
  if (order != false && grad != false) return {};
  return Finding{.where = order == false ? "the order of samples" : "the gradient",
                 .confidence = 0.95,
                 .why = order == false ? "The same seed gives another first batch."
                                       : "The same step gives other gradients.",
                 .clues = {{order == false ? "order_repeats" : "gradient_repeats", 0, 1, 0}}};
}

}  // namespace nondeterministic_cause
}  // namespace

namespace entries::doctor {
extern constexpr DoctorEntry nondeterministic = {
    .name = "nondeterministic",
    .what = "the same seed gives other numbers",
    .symptom = "Two runs of one config differ.",
    .test = "The first batch, or the bits of one gradient, differ when they are made twice.",
    .alike = "",
    .mend = "Seed the order of samples; sum in a fixed order.",
    .needs = "order_repeats, gradient_repeats",
    .shows = "seed_dependent 4, resume_departs 2",
    .explains = "resume_mismatch",
    .look = nondeterministic_cause::look,
};
}  // namespace entries::doctor

}  // namespace plumb
