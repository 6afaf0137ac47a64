// norm_on_identity_path: a norm stands on the residual path.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plumb/doctor/doctor.h"

namespace plumb {
namespace {
namespace norm_on_identity_path_cause {
constexpr double half = 0.5;

std::optional<Finding> look(const Evidence& e) {
  auto sum = e.numbers("path_normed_sum");
  const bool asked = e.said("model.placement", "placement") == "post";
  // Of small writes the sum and the stream before it are the same once they are normalised.
  if (const auto before = e.numbers("path_normed_skip"); asked)
    for (std::size_t i = 0; i < sum.size() && i < before.size(); ++i) sum[i] = std::max(sum[i], before[i]);
  const Course course = course_of(e);
  const bool stuck = course.known && (course.stuck || course.diverged);
  for (std::size_t i = 0; i < sum.size(); ++i) {
    if (!(sum[i] > half) || (asked && !stuck)) continue;
    Finding f{.where = sublayer(i),
              .confidence = asked ? 0.85 : 0.95,
              .why = fmt::format("What leaves {} is normalised as a whole, the path included{}.", sublayer(i),
                                 stuck ? ", and the loss does not fall below the unigram's" : ""),
              .clues = {{"path_normed_sum", sum[i], half, 0}}};
    if (stuck)
      f.clues.push_back(
          {"loss", course.last, e.number("baseline_unigram").value_or(course.first), course.steps - 1});
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
        "loss is stuck at the unigram after 300 steps.",
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
