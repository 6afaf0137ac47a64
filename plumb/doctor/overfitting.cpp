// overfitting: the training text is learnt by heart.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plumb/doctor/doctor.h"

namespace plumb {
namespace {
namespace overfitting_cause {
constexpr double rise = 0.1, most = 50, cut = 0.5;
constexpr double many =
    4;  // up to as many a repeated text is nearly as good as a new one (Muennighoff et al. 2023)

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
  // What is left of the text that the config's split gives to training.
  const auto held_out = e.number("val_tokens"), split = e.value("data.split");
  const double left = held_out && split && *held_out > 0 && *split > 0 && *split < 1
                          ? *tokens / (*held_out * *split / (1 - *split))
                          : 1;
  if (left < cut && epochs > many)
    return Finding{
        .where = "the data",
        .confidence = 0.8,
        .why =
            fmt::format("Only {:.0f} % of the text that is to be trained on is there, and each of its tokens "
                        "will be seen {:.0f} times.",
                        100 * left, epochs),
        .clues = {{"train_tokens", *tokens, *tokens / left * cut, 0}, {"epochs", epochs, many, 0}}};
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
        "training, every training token will be seen more than 50 times, or more than 4 times (Muennighoff "
        "et al. 2023, arXiv 2305.16264) where less "
        "than half of "
        "what data.split gives to training is there.",
    .alike = "evaluated_on_training_data hides it.",
    .mend = "More text, fewer steps, dropout.",
    .needs = "val_loss, train_tokens",
    .shows = "validation_rises 1, train_eval_differ 5",
    .explains = "",
    .look = overfitting_cause::look,
};
}  // namespace entries::doctor

}  // namespace plumb
