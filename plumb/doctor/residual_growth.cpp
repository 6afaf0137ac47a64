// residual_growth: the stream grows with depth: the writes are too large.
#include <fmt/format.h>

#include <cmath>

#include "plumb/doctor/doctor.h"

namespace plumb {
namespace {
namespace residual_growth_cause {
constexpr double most = 1.2;

std::optional<Finding> look(const Evidence& e) {
  if (e.text("model.residual") != "add") return {};
  // A norm behind the branch gives every write its own size: that of its gain.
  const std::string placement = e.text("model.placement");
  const bool normed = placement == "sandwich" || placement == "post_branch";
  if (normed && !e.has_scaling_norm()) return {};
  const char* metric = normed ? "write_rms" : "write_over_branch";
  const double m = middle(e.numbers(metric)) / (normed ? middle(e.numbers("norm_gain_seen")) : 1);
  if (m > most)
    return Finding{.where = "every write",
                   .confidence = 0.95,
                   .why = fmt::format("What the branches put out is written {:.3g} times as large.", m),
                   .clues = {{metric, m, most, 0}}};
  return {};
}

}  // namespace residual_growth_cause
}  // namespace

namespace entries::doctor {
extern constexpr DoctorEntry residual_growth = {
    .name = "residual_growth",
    .what = "the stream grows with depth: the writes are too large",
    .symptom =
        "Activations grow by an order of magnitude from the first block to the last; later blocks hardly "
        "change the stream.",
    .test =
        "With plain addition a branch's output is written as it is: the ratio of write and output is 1. "
        "Above 1.2 something multiplies it. Where a norm stands behind the branch, the write's rms is held "
        "against "
        "the gain of the norms.",
    .alike = "init_too_large makes every matrix large; residual_scale_wrong only what writes.",
    .mend = "Write the branch as it is, or scaled down by 1/sqrt(2 n_layer).",
    .needs = "write_over_branch",
    .shows = "nan_rising 6, diverges 7, worse_with_depth 4",
    .explains = "init_too_large, lr_too_high, norm_eps_large",
    .look = residual_growth_cause::look,
};
}  // namespace entries::doctor

}  // namespace plumb
