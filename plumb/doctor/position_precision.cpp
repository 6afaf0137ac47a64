// position_precision: positions are lost in low precision.
#include <fmt/format.h>

#include <cmath>

#include "plumb/doctor/doctor.h"

namespace plumb {
namespace {
namespace position_precision_cause {

std::optional<Finding> look(const Evidence& e) {
  // One row for all is what rounding to more neighbours than a block has looks like, too.
  if (e.flag("positions_told") == false && e.number("position_rows_used") == 1 &&
      e.number("position_last_row") == 0 && e.number("position_table_rows").value_or(0) > 1)
    return Finding{.where = "the position code",
                   .confidence = 0.5,
                   .why = "Every position reads the first row of the table, as if rounded down to it.",
                   .clues = {{"position_rows_used", 1, 2, 0}}};
  const auto step = e.number("position_step");
  if (!step || !(*step >= 2)) return {};
  return Finding{.where = "the position code",
                 .confidence = 0.95,
                 .why = fmt::format("{:.0f} neighbours at a time are told as one position.", *step),
                 .clues = {{"position_step", *step, 1, 0}}};
}

}  // namespace position_precision_cause
}  // namespace

namespace entries::doctor {
extern constexpr DoctorEntry position_precision = {
    .name = "position_precision",
    .what = "positions are lost in low precision",
    .symptom = "Worse as context grows: neighbours cannot be told apart.",
    .test = "With one token everywhere, every position is told the same as a neighbour.",
    .alike = "position_out_of_range repeats at the end alone.",
    .mend = "Make tables of positions and angles in fp32.",
    .needs = "position_step",
    .shows = "worse_with_length 2",
    .explains = "position_out_of_range",
    .look = position_precision_cause::look,
};
}  // namespace entries::doctor

}  // namespace plumb
