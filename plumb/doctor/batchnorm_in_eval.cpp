// batchnorm_in_eval: batch norm is evaluated in training mode.
#include <fmt/format.h>

#include <cmath>

#include "plumb/doctor/doctor.h"

namespace plumb {
namespace {
namespace batchnorm_in_eval_cause {

std::optional<Finding> look(const Evidence& e) {
  if (e.flag("eval_depends_on_batch") != true) return {};
  return Finding{.where = "evaluation",
                 .confidence = 0.95,
                 .why = "In evaluation a sequence's logits depend on the others of its batch.",
                 .clues = {{"eval_depends_on_batch", 1, 0, 0}}};
}

}  // namespace batchnorm_in_eval_cause
}  // namespace

namespace entries::doctor {
extern constexpr DoctorEntry batchnorm_in_eval = {
    .name = "batchnorm_in_eval",
    .what = "batch norm is evaluated in training mode",
    .symptom = "The validation loss depends on which sequences stand in a batch.",
    .test = "In evaluation, another first sequence of a batch changes the logits of the others.",
    .alike = "batchnorm_batch_dependence is the same in training.",
    .mend = "Evaluate with the running statistics (model.eval()).",
    .needs = "eval_depends_on_batch",
    .shows = "train_eval_differ 2",
    .explains = "causal_leak, batchnorm_batch_dependence, norm_wrong_axis",
    .look = batchnorm_in_eval_cause::look,
};
}  // namespace entries::doctor

}  // namespace plumb
