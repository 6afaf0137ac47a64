// Training logs as text: CSV, JSON Lines, and the trainer_state.json of Hugging Face's Trainer.
#pragma once
#include <string_view>
#include <vector>

#include "plumb/interop/scalars.h"

namespace plumb {

/// A table with a header line; cells separated by commas, semicolons or tabs (whichever the header has most
/// of), quoted as in RFC 4180. One column must be the step (see metric_of); empty cells are passed over,
/// columns whose cells are not numbers too, except the loss: bad_input with file and line. A last line that
/// was cut off (fewer cells than the header, no newline) is left out and said in `warning`.
std::vector<Scalar> read_csv_log(std::string_view text, std::string_view name, std::string& warning);

/// One JSON object a line with a step and numbers, nested objects joined as "train/loss"; lines without a
/// step are counted in `warning` and passed over. The literals NaN, Infinity and -Infinity, which Python
/// writes, are read. A last line without a newline that is no JSON is left out and said in `warning`. A whole
/// file that is one JSON object with a `log_history` is read as that list.
std::vector<Scalar> read_json_log(std::string_view text, std::string_view name, std::string& warning);

}  // namespace plumb
