// position_out_of_range: positions past the end of the trained range.
#include <fmt/format.h>

#include <cmath>

#include "plumb/doctor/doctor.h"

namespace plumb {
namespace {
namespace position_out_of_range_cause {

std::optional<Finding> look(const Evidence& e) {
  if (const auto row = e.number("position_last_row"); e.flag("positions_told") == false &&
                                                      e.number("position_rows_used") == 1 && row &&
                                                      *row + 1 == e.number("position_table_rows"))
    return Finding{
        .where = "the position code",
        .confidence = 0.93,
        .why = fmt::format("Every position reads row {:.0f} of the table, the last one that is used.", *row),
        .clues = {{"position_rows_used", 1, 2, 0}}};
  const auto tail = e.number("position_tail");
  if (!tail || !(*tail >= 2) || e.number("position_step").value_or(1) >= 2) return {};
  return Finding{.where = "the position code",
                 .confidence = 0.93,
                 .why = fmt::format("The last {:.0f} positions are told as one.", *tail),
                 .clues = {{"position_tail", *tail, 1, 0}}};
}

}  // namespace position_out_of_range_cause
}  // namespace

namespace entries::doctor {
extern constexpr DoctorEntry position_out_of_range = {
    .name = "position_out_of_range",
    .what = "positions past the end of the trained range",
    .symptom = "The loss rises at the end of long sequences.",
    .test =
        "With one token everywhere, several positions at the end are told the same; or one row of the table, "
        "not "
        "the first, is all that has a gradient.",
    .alike = "position_precision repeats neighbours everywhere.",
    .mend = "A table as long as the longest sequence, or a code that extends.",
    .needs = "position_tail",
    .shows = "worse_with_length 1",
    .explains = "position_missing",
    .look = position_out_of_range_cause::look,
};
}  // namespace entries::doctor

}  // namespace plumb
