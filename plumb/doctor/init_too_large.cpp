// init_too_large: the weights start far too large.
#include <fmt/format.h>

#include <cmath>

#include "plumb/doctor/doctor.h"

namespace plumb {
namespace {
namespace init_too_large_cause {
// rms sqrt(fan_in): He's sqrt(2) is the largest that is usual.
constexpr double most = 1.5, most_gain = 2, most_over = 2;

std::optional<Finding> look(const Evidence& e) {
  const auto uniform = e.number("baseline_uniform"), gain = e.number("weight_gain");
  const Series loss = e.series("loss");
  if (loss.empty() || loss.steps.front() != 0) return {};
  const double ln_v = uniform.value_or(NAN), start = loss.values.front();
  const auto over = drawn_over_asked(e);
  const bool large = (gain && *gain > most_gain) || (over && *over > most_over);
  if (!(start > ln_v + most) && !large) return {};
  Finding f{.where = "all weights",
            .confidence = large ? 0.95 : 0.75,
            .why = fmt::format("The loss starts at {:.3g} where a model that knows nothing has {:.3g}.",
                               start, ln_v),
            .clues = {{"loss", start, ln_v + most, 0}}};
  if (gain && *gain > most_gain) f.clues.push_back({"weight_gain", *gain, most_gain, 0});
  if (over && *over > most_over) {
    f.why = fmt::format("The matrices are drawn {:.3g} times as large as init.std asks for.", *over);
    f.clues.push_back({"matrix_rms / init.std", *over, most_over, 0});
  }
  if (e.text("init.scheme") == "normal" || e.text("init.scheme") == "gpt2") f.patch = {{"init.std", 0.02}};
  return f;
}

}  // namespace init_too_large_cause
}  // namespace

namespace entries::doctor {
extern constexpr DoctorEntry init_too_large = {
    .name = "init_too_large",
    .what = "the weights start far too large",
    .symptom = "The loss starts far above ln V; gradients are large and the first steps are wild.",
    .test =
        "The loss at step 0 is more than 1.5 nats above ln V. Logits of variance s^2 cost about s^2 / 2 "
        "there: a head drawn with variance 2 / fan_in (He) costs 1. Or the matrices are drawn more than "
        "twice as large as init.std says, or so that they double what they read.",
    .alike =
        "tied_embedding_broken: only the embedding is large. residual_growth: the writes are, not the "
        "matrices.",
    .mend = "Draw with std 0.02, or 1/sqrt(fan_in).",
    .needs = "loss, baseline_uniform, weight_gain",
    .shows = "nan_rising 7, diverges 4, first_loss 1",
    .explains = "lr_too_low, attention_logits_exploding, lr_too_high, attention_unscaled",
    .look = init_too_large_cause::look,
};
}  // namespace entries::doctor

}  // namespace plumb
