// norm_on_identity_path: a norm stands on the residual path.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plumb/doctor/doctor.h"

namespace plumb {
namespace {
namespace norm_on_identity_path_cause {
constexpr double half = 0.5, reached = 0.25, margin = 0.05, least_kl = 1e-2, large = 0.18;
constexpr std::size_t behind = 6, tail = 5;

// The short training of the audit came to the unigram's loss, 60 steps later neighbouring positions still predict the same,
// and each update is so large against the weights that they do not find a way out: smaller ones do, later.
std::optional<Clue> collapse_of(const Evidence& e) {
  const auto step = e.numbers("pilot_step"), loss = e.numbers("pilot_loss"), kl = e.numbers("pilot_kl");
  const auto unigram = e.number("baseline_unigram"), ratio = e.number("first_update_ratio");
  if (!unigram || !ratio || loss.empty() || kl.size() != loss.size() || step.size() != loss.size()) return {};
  std::size_t at = 0;
  while (at < loss.size() && !(loss[at] < *unigram + reached)) ++at;
  if (at + behind >= loss.size() || loss.back() < *unigram - margin || *ratio < large) return {};
  const double lately = middle({kl.end() - tail, kl.end()});
  if (!(lately < least_kl)) return {};
  return Clue{"pilot_kl", lately, least_kl, static_cast<std::int64_t>(step.back())};
}

std::optional<Finding> look(const Evidence& e) {
  auto sum = e.numbers("path_normed_sum");
  const bool asked = e.said("model.placement", "placement") == "post";
  // Of small writes the sum and the stream before it are the same once they are normalised.
  if (const auto before = e.numbers("path_normed_skip"); asked)
    for (std::size_t i = 0; i < sum.size() && i < before.size(); ++i) sum[i] = std::max(sum[i], before[i]);
  const Course course = course_of(e);
  const bool stuck = course.known && (course.stuck || course.diverged);
  const auto collapse = course.known ? std::nullopt : collapse_of(e);  // of a run its own course is the judge
  for (std::size_t i = 0; i < sum.size(); ++i) {
    if (!(sum[i] > half) || (asked && !stuck && !collapse)) continue;
    Finding f{
        .where = sublayer(i),
        .confidence = asked ? 0.85 : 0.95,
        .why = fmt::format("What leaves {} is normalised as a whole, the path included{}.", sublayer(i),
                           stuck ? ", and the loss does not fall below the unigram's"
                           : collapse && asked
                               ? ", and in a short training at the peak rate neighbouring positions come to "
                                 "predict the same"
                               : ""),
        .clues = {{"path_normed_sum", sum[i], half, 0}}};
    if (stuck)
      f.clues.push_back(
          {"loss", course.last, e.number("baseline_unigram").value_or(course.first), course.steps - 1});
    if (collapse && asked) {
      f.clues.push_back(*collapse);
      f.clues.push_back({"first_update_ratio", e.number("first_update_ratio").value_or(0), large, 0});
    }
    if (asked) f.patch = {{"model.placement", "pre"}};
    return f;
  }
  if (sum.empty() && asked && stuck)
    return Finding{
        .where = "every block",
        .confidence = 0.8,
        .why = "The norms stand behind the additions, and the loss does not fall below the unigram's.",
        .clues = {
            {"loss", course.last, e.number("baseline_unigram").value_or(course.first), course.steps - 1}}};
  return {};
}

}  // namespace norm_on_identity_path_cause
}  // namespace

namespace entries::doctor {
extern constexpr DoctorEntry norm_on_identity_path = {
    .name = "norm_on_identity_path",
    .what = "a norm stands on the residual path",
    .symptom =
        "The loss falls to the unigram and stays there; a lower learning rate or a longer warm-up may help.",
    .test =
        "The stream behind a sub-layer is N(x + f(x)): the fit has more than 0.5 of the normalised sum. "
        "Where the config asks for placement = \"post\" that is no fault by itself: it is named when the "
        "loss is stuck at the unigram after 300 steps; or, before training, when in a training of 160 steps "
        "at the "
        "peak rate the KL of neighbouring predictions is below 0.01 in the last 50 steps, 60 or more after "
        "the loss came "
        "to the unigram's, and the first update is more than 0.18 of the weights' size (of 22 Post-LN "
        "configs those that stayed stuck had 0.24 or more, those that came out of it later 0.14 or less).",
    .alike = "skip_after_norm normalises before the addition; no_residual has no path at all.",
    .mend =
        "Move the norm into the branch, x + f(N(x)) (model.placement = \"pre\"), or, keeping Post-LN, lower "
        "the peak learning rate and warm up longer.",
    .needs = "path_normed_sum, loss",
    .shows = "stuck_unigram 1, seed_dependent 2, worse_with_depth 5",
    .explains = "constant_output, no_final_norm, underfitting, gradient_blocked_at_layer",
    .look = norm_on_identity_path_cause::look,
};
}  // namespace entries::doctor

}  // namespace plumb
