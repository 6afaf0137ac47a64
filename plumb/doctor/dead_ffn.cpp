// dead_ffn: slots of the feed-forward networks never fire.
#include <fmt/format.h>

#include <cmath>

#include "plumb/doctor/doctor.h"

namespace plumb {
namespace {
namespace dead_ffn_cause {
constexpr double most = 0.05;

std::optional<Finding> look(const Evidence& e) {
  const auto dead = e.numbers("dead_slots");
  for (std::size_t i = 0; i < dead.size(); ++i)
    if (dead[i] > most)
      return Finding{
          .where = fmt::format("blocks.{}.ffn", i),
          .confidence = 0.95,
          .why = fmt::format("{:.0f} % of the slots of block {} put out 0 at every position before training.",
                             100 * dead[i], i),
          .clues = {{"dead_slots", dead[i], most, 0}}};
  return {};
}

}  // namespace dead_ffn_cause
}  // namespace

namespace entries::doctor {
extern constexpr DoctorEntry dead_ffn = {
    .name = "dead_ffn",
    .what = "slots of the feed-forward networks never fire",
    .symptom = "A part of the parameters gets no gradient; the loss is a little worse.",
    .test =
        "What the slots read is drawn anew at every position, half of it above 0: slots whose activation is "
        "exactly 0 at all of them, more than 5 % of a block. One is by chance with probability 2^-256.",
    .alike = "Slots that die while training may have any cause: they are counted, and no cause is named.",
    .mend =
        "Look at the bias of the first matrix and at masks of the activation; leaky_relu or gelu do not die.",
    .needs = "dead_slots",
    .shows = "slightly_worse 9, slow 8",
    .explains = "",
    .look = dead_ffn_cause::look,
};
}  // namespace entries::doctor

}  // namespace plumb
