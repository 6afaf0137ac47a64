// batchnorm_batch_dependence: a sequence's output depends on the others of its batch.
#include <fmt/format.h>

#include <cmath>

#include "plumb/doctor/doctor.h"

namespace plumb {
namespace {
namespace batchnorm_batch_dependence_cause {

std::optional<Finding> look(const Evidence& e) {
  if (e.flag("train_depends_on_batch") != true) return {};
  Finding f{.where = "the norms",
            .confidence = 0.9,
            .why = "A sequence's logits depend on the others of its batch.",
            .clues = {{"train_depends_on_batch", 1, 0, 0}}};
  if (e.text("model.norm") == "batch") f.patch = {{"model.norm", "layer"}};
  return f;
}

}  // namespace batchnorm_batch_dependence_cause
}  // namespace

namespace entries::doctor {
extern constexpr DoctorEntry batchnorm_batch_dependence = {
    .name = "batchnorm_batch_dependence",
    .what = "a sequence's output depends on the others of its batch",
    .symptom = "Training and evaluation part; each position sees the future through the statistics.",
    .test = "In training, another first sequence of a batch changes the logits of the others.",
    .alike = "norm_wrong_axis couples positions of one sequence only.",
    .mend = "Use a norm of each position by itself (layer, rms).",
    .needs = "train_depends_on_batch",
    .shows = "too_good 5, validation_rises 2, train_eval_differ 3",
    .explains = "causal_leak, norm_wrong_axis",
    .look = batchnorm_batch_dependence_cause::look,
};
}  // namespace entries::doctor

}  // namespace plumb
