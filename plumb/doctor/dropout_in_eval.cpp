// dropout_in_eval: dropout is on in evaluation.
#include <fmt/format.h>

#include <cmath>

#include "plumb/doctor/doctor.h"

namespace plumb {
namespace {
namespace dropout_in_eval_cause {

std::optional<Finding> look(const Evidence& e) {
  if (e.flag("eval_repeats") != false) return {};
  return Finding{.where = "evaluation",
                 .confidence = 0.95,
                 .why = "Two evaluations of one batch differ.",
                 .clues = {{"eval_repeats", 0, 1, 0}}};
}

}  // namespace dropout_in_eval_cause
}  // namespace

namespace entries::doctor {
extern constexpr DoctorEntry dropout_in_eval = {
    .name = "dropout_in_eval",
    .what = "dropout is on in evaluation",
    .symptom = "The validation loss differs each time it is measured.",
    .test = "Two evaluating passes of one batch differ.",
    .alike = "",
    .mend = "p = 0 in evaluation (model.eval(), also inside fused attention).",
    .needs = "eval_repeats",
    .shows = "validation_rises 3, train_eval_differ 1",
    .explains = "",
    .look = dropout_in_eval_cause::look,
};
}  // namespace entries::doctor

}  // namespace plumb
