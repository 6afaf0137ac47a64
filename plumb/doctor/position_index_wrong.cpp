// position_index_wrong: positions are offset, wrapped or mis-paired.
#include <fmt/format.h>

#include <cmath>

#include "plumb/doctor/doctor.h"

namespace plumb {
namespace {
namespace position_index_wrong_cause {

std::optional<Finding> look(const Evidence& e) {
  if (const auto period = e.number("position_period");
      period && *period > 0 && e.number("position_step").value_or(1) < 2)
    return Finding{.where = "the position code",
                   .confidence = 0.95,
                   .why = fmt::format("Positions repeat after {:.0f}.", *period),
                   .clues = {{"position_period", *period, 0, 0}}};
  if (e.flag("positions_told") == false && e.number("position_rows_used") == 1 &&
      e.number("position_last_row") == 0 && e.number("position_table_rows").value_or(0) > 1)
    return Finding{.where = "the position code",
                   .confidence = 0.95,
                   .why = "Every position reads the first row of the table.",
                   .clues = {{"position_rows_used", 1, 2, 0}}};
  if (const auto first = e.number("position_first"); first && *first != 0)
    return Finding{.where = "the position code",
                   .confidence = 0.9,
                   .why = fmt::format("The first token has position {:.0f}.", *first),
                   .clues = {{"position_first", *first, 0, 0}}};
  return {};
}

}  // namespace position_index_wrong_cause
}  // namespace

namespace entries::doctor {
extern constexpr DoctorEntry position_index_wrong = {
    .name = "position_index_wrong",
    .what = "positions are offset, wrapped or mis-paired",
    .symptom = "Tokens far apart are taken for neighbours; a little worse, more with length.",
    .test =
        "With one token everywhere, what a position is told repeats with a period shorter than the block; or "
        "the first token does not have position 0.",
    .alike = "position_precision repeats neighbours; position_out_of_range repeats the end.",
    .mend = "Count positions from 0 to block_size - 1, once.",
    .needs = "position_period",
    .shows = "slightly_worse 6, worse_with_length 3, import_differs 3",
    .explains = "position_missing",
    .look = position_index_wrong_cause::look,
};
}  // namespace entries::doctor

}  // namespace plumb
