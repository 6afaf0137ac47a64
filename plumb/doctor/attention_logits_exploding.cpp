// attention_logits_exploding: q.k grows without bound.
#include <fmt/format.h>

#include <cmath>

#include "plumb/doctor/doctor.h"

namespace plumb {
namespace {
namespace attention_logits_exploding_cause {

constexpr double most = 100, most_rate = 3;

Patch norm_of(const Evidence& e) {
  if (e.text("model.attention.qk_norm") != "none") return {};
  return {{"model.attention.qk_norm", "rms"}};
}

std::optional<Finding> look(const Evidence& e) {
  const auto q = e.number("moves_by_role", "q"), v = e.number("moves_by_role", "v");
  if (q && v && *v > 0 && *q > most_rate * *v && e.value("train.lr_scale.q").value_or(1) <= 1)
    return Finding{.where = "queries and keys",
                   .confidence = 0.9,
                   .why = fmt::format("Queries learn {:.3g} times as fast as values.", *q / *v),
                   .clues = {{"moves_by_role.q / v", *q / *v, most_rate, 0}},
                   .patch = norm_of(e)};
  for (const StepRow& row : e.trace().steps)
    if (const auto* max = row.find_layers("attn_max_logit"))
      for (std::size_t i = 0; i < max->size(); ++i)
        if ((*max)[i] > most)
          return Finding{.where = fmt::format("blocks.{}.attn", i),
                         .confidence = 0.85,
                         .why = fmt::format("The largest score of block {} is {:.3g} at step {}.", i,
                                            (*max)[i], row.step),
                         .clues = {{"attn_max_logit", (*max)[i], most, row.step}},
                         .patch = norm_of(e)};
  return {};
}

}  // namespace attention_logits_exploding_cause
}  // namespace

namespace entries::doctor {
extern constexpr DoctorEntry attention_logits_exploding = {
    .name = "attention_logits_exploding",
    .what = "q.k grows without bound",
    .symptom = "The largest score grows by tens while training, entropy falls to 0, then the loss spikes.",
    .test =
        "Queries and keys learn more than 3 times as fast as other matrices although nothing asks for it; or "
        "the largest score of a block rises above 100, where exp leaves nothing to other keys.",
    .alike = "attention_unscaled is too large from the start.",
    .mend =
        "Normalise queries and keys (model.attention.qk_norm = \"rms\"), cap the scores, lower the learning "
        "rate.",
    .needs = "attn_max_logit, moves_by_role",
    .shows = "nan_rising 4, seed_dependent 5, spikes 5, diverges 5",
    .explains = "",
    .look = attention_logits_exploding_cause::look,
};
}  // namespace entries::doctor

}  // namespace plumb
