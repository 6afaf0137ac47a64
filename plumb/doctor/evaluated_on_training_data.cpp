// evaluated_on_training_data: the validation text was trained on.
#include <fmt/format.h>

#include <cmath>

#include "plumb/doctor/doctor.h"

namespace plumb {
namespace {
namespace evaluated_on_training_data_cause {
constexpr double most = 0.5;

std::optional<Finding> look(const Evidence& e) {
  const auto seen = e.number("validation_seen");
  if (!seen || !(*seen > most)) return {};
  return Finding{
      .where = "the validation split",
      .confidence = 0.95,
      .why = fmt::format(
          "The validation text is as well known from training as the training text itself ({:.2g} of it).",
          *seen),
      .clues = {{"validation_seen", *seen, most, 0}}};
}

}  // namespace evaluated_on_training_data_cause
}  // namespace

namespace entries::doctor {
extern constexpr DoctorEntry evaluated_on_training_data = {
    .name = "evaluated_on_training_data",
    .what = "the validation text was trained on",
    .symptom = "A validation loss that is too good, and as low as the training loss.",
    .test =
        "Of the 16-token pieces of the validation text, how many stand in the training text, over the same "
        "of fresh training windows: 1 of the same text. Above 0.5.",
    .alike = "Verse that repeats itself has some.",
    .mend = "Split before anything else; look for duplicates.",
    .needs = "validation_seen",
    .shows = "too_good 6, train_eval_differ 6",
    .explains = "",
    .look = evaluated_on_training_data_cause::look,
};
}  // namespace entries::doctor

}  // namespace plumb
