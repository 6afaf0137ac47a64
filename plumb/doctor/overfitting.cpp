// overfitting: the training text is learnt by heart.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plumb/doctor/doctor.h"

namespace plumb {
namespace {
namespace overfitting_cause {
constexpr double rise = 0.1, most = 50;

std::optional<Finding> look(const Evidence& e) {
  const Series val = e.series("val_loss"), loss = e.series("loss");
  if (val.values.size() >= 2 && loss.values.size() > 1) {
    const auto best = std::ranges::min_element(val.values);
    if (val.last() > *best + rise && loss.last() < *best - rise)
      return Finding{.where = "the data",
                     .confidence = 0.9,
                     .why = fmt::format(
                         "The validation loss rose from {:.3g} to {:.3g} while the training loss is {:.3g}.",
                         *best, val.last(), loss.last()),
                     .clues = {{"val_loss", val.last(), *best + rise, val.steps.back()}}};
  }
  const auto tokens = e.number("train_tokens"), steps = e.value("train.steps"),
             batch = e.value("train.batch_size"), block = e.value("model.block_size");
  if (!tokens || !steps || !batch || !block || *tokens <= 0) return {};
  const double epochs = *steps * *batch * e.value("train.accumulate").value_or(1) * *block / *tokens;
  if (!(epochs > most)) return {};
  return Finding{
      .where = "the data",
      .confidence = 0.75,
      .why = fmt::format("Each of {:.0f} training tokens will be seen {:.0f} times.", *tokens, epochs),
      .clues = {{"epochs", epochs, most, 0}}};
}

}  // namespace overfitting_cause
}  // namespace

namespace entries::doctor {
extern constexpr DoctorEntry overfitting = {
    .name = "overfitting",
    .what = "the training text is learnt by heart",
    .symptom = "The training loss goes on falling, the validation loss rises.",
    .test =
        "The validation loss ends more than 0.1 nats above its best while the training loss fell; or, before "
        "training, every training token will be seen more than 50 times.",
    .alike = "evaluated_on_training_data hides it.",
    .mend = "More text, fewer steps, dropout.",
    .needs = "val_loss, train_tokens",
    .shows = "validation_rises 1, train_eval_differ 5",
    .explains = "",
    .look = overfitting_cause::look,
};
}  // namespace entries::doctor

}  // namespace plumb
