// tied_embedding_broken: head and embedding differ although tied, or are tied at the embedding's scale.
#include <fmt/format.h>

#include <cmath>

#include "plumb/doctor/doctor.h"

namespace plumb {
namespace {
namespace tied_embedding_broken_cause {
constexpr double most = 4;

std::optional<Finding> look(const Evidence& e) {
  const auto tied = e.flag("tied"), said = e.flag("tied_declared");
  if (tied == false && said == true)
    return Finding{.where = "the head",
                   .confidence = 0.97,
                   .why = "The config ties head and embedding, and the model has two matrices.",
                   .clues = {{"tied", 0, 1, 0}}};
  const auto embed = e.number("embed_rms"), d = e.value("model.d_model"),
             uniform = e.number("baseline_uniform"), gain = e.number("weight_gain");
  const Series loss = e.series("loss");
  if (tied == true && embed && d && uniform && gain && *gain < 2 && !loss.empty() &&
      loss.steps.front() == 0 && loss.values.front() > *uniform + 1.5 && *embed * std::sqrt(*d) > most)
    return Finding{.where = "the embedding",
                   .confidence = 0.9,
                   .why = fmt::format(
                       "The tied matrix has an rms of {:.3g}: as a head it makes logits of deviation {:.3g}.",
                       *embed, *embed * std::sqrt(*d)),
                   .clues = {{"embed_rms", *embed, most / std::sqrt(*d), 0}}};
  return {};
}

}  // namespace tied_embedding_broken_cause
}  // namespace

namespace entries::doctor {
extern constexpr DoctorEntry tied_embedding_broken = {
    .name = "tied_embedding_broken",
    .what = "head and embedding differ although tied, or are tied at the embedding's scale",
    .symptom =
        "More parameters than there should be and a worse loss; or a first loss in the tens or hundreds.",
    .test =
        "The config ties them and the model has two matrices. Or they are one, the first loss is more than "
        "1.5 above ln V, and the embedding's rms sqrt(d_model) is above 4: as a head it makes logits of that "
        "deviation.",
    .alike = "init_too_large has every matrix large.",
    .mend = "Use one matrix for both, drawn at the head's scale (1/sqrt(d_model) or 0.02).",
    .needs = "tied, tied_declared",
    .shows = "slightly_worse 8, resume_departs 3, import_differs 4, first_loss 2",
    .explains = "init_too_large",
    .look = tied_embedding_broken_cause::look,
};
}  // namespace entries::doctor

}  // namespace plumb
