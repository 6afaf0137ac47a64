// attention_unscaled: the scores are not divided by sqrt(d_head).
#include <fmt/format.h>

#include <cmath>

#include "plumb/doctor/doctor.h"

namespace plumb {
namespace {
namespace attention_unscaled_cause {
constexpr double most = 1.3;

std::optional<Finding> look(const Evidence& e) {
  const auto r = score_scale_of(e);
  if (!r || !(*r > most)) return {};
  Finding f{.where = "every attention",
            .confidence = 0.95,
            .why = fmt::format("Scores are {:.3g} times q.k / sqrt(d_head).", *r),
            .clues = {{"score_scale sqrt(d_head)", *r, most, 0}}};
  if (e.text("model.attention.scale") == "none") f.patch = {{"model.attention.scale", "sqrt"}};
  return f;
}

}  // namespace attention_unscaled_cause
}  // namespace

namespace entries::doctor {
extern constexpr DoctorEntry attention_unscaled = {
    .name = "attention_unscaled",
    .what = "the scores are not divided by sqrt(d_head)",
    .symptom =
        "Attention collapses onto few keys early; entropy is low from the start where d_head is large.",
    .test =
        "The factor between q.k and the score, where a query meets its own key, times sqrt(d_head): 1. Above "
        "1.3 the scores are too large.",
    .alike = "attention_logits_exploding starts with scores of the right size.",
    .mend = "Divide scores by sqrt(d_head) (model.attention.scale = \"sqrt\").",
    .needs = "score_scale",
    .shows = "nan_rising 8, slightly_worse 2, diverges 8, import_differs 7",
    .explains = "attention_logits_exploding",
    .look = attention_unscaled_cause::look,
};
}  // namespace entries::doctor

}  // namespace plumb
