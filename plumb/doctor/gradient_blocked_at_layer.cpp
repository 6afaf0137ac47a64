// gradient_blocked_at_layer: the gradient drops by orders of magnitude at one place.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plumb/doctor/doctor.h"

namespace plumb {
namespace {
namespace gradient_blocked_at_layer_cause {
constexpr double most = 30;

std::optional<Finding> look(const Evidence& e) {
  const auto grad = e.layers("grad_std", true);
  std::vector<double> drops;
  for (std::size_t i = 0; i + 1 < grad.size(); ++i)
    drops.push_back(grad[i] > 0 ? grad[i + 1] / grad[i] : HUGE_VAL);
  for (std::size_t i = 0; i < drops.size(); ++i) {
    std::vector<double> others = drops;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    const double usual = others.empty() ? 1 : middle(others);
    if (!(drops[i] > most * std::max(1.0, usual)) || !(grad[i + 1] > 0)) continue;
    return Finding{
        .where = fmt::format("blocks.{}", i + 1),
        .confidence = 0.92,
        .why = fmt::format("The gradient is {:.3g} times smaller below block {}.", drops[i], i + 1),
        .clues = {
            {"grad_std ratio", drops[i], most * std::max(1.0, usual), e.layers_step("grad_std", true)}}};
  }
  return {};
}

}  // namespace gradient_blocked_at_layer_cause
}  // namespace

namespace entries::doctor {
extern constexpr DoctorEntry gradient_blocked_at_layer = {
    .name = "gradient_blocked_at_layer",
    .what = "the gradient drops by orders of magnitude at one place",
    .symptom = "The blocks below one place do not learn.",
    .test =
        "Between two neighbouring blocks the gradient's deviation at the first row changes more than 30 "
        "times as much as between the others in the middle.",
    .alike = "A gradient that falls evenly with depth has no such place.",
    .mend = "Look for a detach, a constant factor or a saturated function between the two blocks.",
    .needs = "grad_std",
    .shows = "stuck_uniform 6, stuck_unigram 7, slow 7, worse_with_depth 7",
    .explains = "layer_unused, underfitting",
    .look = gradient_blocked_at_layer_cause::look,
};
}  // namespace entries::doctor

}  // namespace plumb
