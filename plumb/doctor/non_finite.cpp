// non_finite: a value that is not finite.
#include <fmt/format.h>

#include <cmath>

#include "plumb/doctor/doctor.h"

namespace plumb {
namespace {
namespace non_finite_cause {

std::optional<Finding> look(const Evidence& e) {
  const Series loss = e.series("loss"), norm = e.series("grad_norm");
  for (const Series* s : {&loss, &norm})
    for (std::size_t i = 0; i < s->values.size(); ++i)
      if (!std::isfinite(s->values[i]))
        return Finding{.where = fmt::format("step {}", s->steps[i]),
                       .confidence = 0.95,
                       .why = e.word("non_finite").value_or("The first tensor was not recorded."),
                       .clues = {{s == &loss ? "loss" : "grad_norm", s->values[i], 0, s->steps[i]}}};
  if (const auto what = e.word("non_finite"))
    return Finding{.where = "the run", .confidence = 0.9, .why = *what, .clues = {{"non_finite", 1, 0, 0}}};
  return {};
}

}  // namespace non_finite_cause
}  // namespace

namespace entries::doctor {
extern constexpr DoctorEntry non_finite = {
    .name = "non_finite",
    .what = "a value that is not finite",
    .symptom = "NaN: the run stopped.",
    .test = "A loss or gradient norm that is not finite; the first tensor is named where it was recorded.",
    .alike =
        "The cause may lie before: rising gradients (lr_too_high), a format that overflows (norm_eps_lost).",
    .mend = "Look at the tensor that is named; lower the learning rate where gradients rose before.",
    .needs = "loss",
    .shows = "nan_sudden 1",
    .explains = "",
    .look = non_finite_cause::look,
};
}  // namespace entries::doctor

}  // namespace plumb
