// attention_overscaled: the scores are scaled down twice: attention is nearly uniform.
#include <fmt/format.h>

#include <cmath>

#include "plumb/doctor/doctor.h"

namespace plumb {
namespace {
namespace attention_overscaled_cause {
constexpr double least = 0.77;

std::optional<Finding> look(const Evidence& e) {
  const auto r = score_scale_of(e);
  if (!r || !(*r < least)) return {};
  return Finding{.where = "every attention",
                 .confidence = 0.95,
                 .why = fmt::format("Scores are {:.3g} times q.k / sqrt(d_head).", *r),
                 .clues = {{"score_scale sqrt(d_head)", *r, least, 0}}};
}

}  // namespace attention_overscaled_cause
}  // namespace

namespace entries::doctor {
extern constexpr DoctorEntry attention_overscaled = {
    .name = "attention_overscaled",
    .what = "the scores are scaled down twice: attention is nearly uniform",
    .symptom = "Entropy stays at its largest; heads cannot tell keys apart.",
    .test =
        "The factor between q.k and the score, where a query meets its own key, times sqrt(d_head): 1. Below "
        "0.77 the scores are too small.",
    .alike = "",
    .mend = "Divide scores by sqrt(d_head) once.",
    .needs = "score_scale",
    .shows = "slightly_worse 3, worse_with_length 5",
    .explains = "",
    .look = attention_overscaled_cause::look,
};
}  // namespace entries::doctor

}  // namespace plumb
