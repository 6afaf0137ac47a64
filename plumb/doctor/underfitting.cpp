// underfitting: too little of the model learns.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plumb/doctor/doctor.h"

namespace plumb {
namespace {
namespace underfitting_cause {
constexpr double least = 0.8;

std::optional<Finding> look(const Evidence& e) {
  const auto embed = e.number("moves_by_role", "token_embed"), in = e.number("moves_by_role", "ffn_in"),
             q = e.number("moves_by_role", "q");
  if (!embed || !in || !(*embed > 0) || e.value("train.lr_scale.ffn_in").value_or(1) < 1) return {};
  const double ratio = std::max(*in, q.value_or(0)) / *embed;
  if (!(ratio < least) || e.text("init.scheme") == "mup") return {};
  return Finding{.where = "the blocks",
                 .confidence = ratio < 0.3 ? 0.9 : 0.7,
                 .why = fmt::format("The blocks learn {:.2g} times as fast as the embedding.", ratio),
                 .clues = {{"moves_by_role", ratio, least, 0}}};
}

}  // namespace underfitting_cause
}  // namespace

namespace entries::doctor {
extern constexpr DoctorEntry underfitting = {
    .name = "underfitting",
    .what = "too little of the model learns",
    .symptom = "Training and validation loss stay high together.",
    .test =
        "The matrices of the blocks move by less than 0.8 of what the embedding does under equal "
        "gradients, although nothing asks for it.",
    .alike = "lr_too_low holds for all parameters alike.",
    .mend = "Look at frozen parameters and at learning rates by role.",
    .needs = "moves_by_role",
    .shows = "slow 2",
    .explains = "updates_lost, lr_too_low, layer_unused",
    .look = underfitting_cause::look,
};
}  // namespace entries::doctor

}  // namespace plumb
