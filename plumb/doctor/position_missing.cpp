// position_missing: order is visible through the mask alone.
#include <fmt/format.h>

#include <cmath>

#include "plumb/doctor/doctor.h"

namespace plumb {
namespace {
namespace position_missing_cause {

std::optional<Finding> look(const Evidence& e) {
  if (e.flag("positions_told") != false || e.text("model.position") == "none") return {};
  return Finding{.where = "the embedding",
                 .confidence = 0.9,
                 .why = "No position can be told from another.",
                 .clues = {{"positions_told", 0, 1, 0}}};
}

}  // namespace position_missing_cause
}  // namespace

namespace entries::doctor {
extern constexpr DoctorEntry position_missing = {
    .name = "position_missing",
    .what = "order is visible through the mask alone",
    .symptom = "A little worse; far worse with one layer.",
    .test =
        "With one token everywhere, every position gets the same from the embedding and gives every key the "
        "same score, although the config asks for a position code.",
    .alike = "model.position = \"none\" is a choice: it is not named.",
    .mend = "Add the position code to the embedding, or to queries and keys.",
    .needs = "positions_told",
    .shows = "slightly_worse 5, worse_with_length 4",
    .explains = "",
    .look = position_missing_cause::look,
};
}  // namespace entries::doctor

}  // namespace plumb
