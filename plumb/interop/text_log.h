// Training logs as text: CSV, JSON Lines, and the trainer_state.json of Hugging Face's Trainer.
#pragma once
#include <string_view>

#include "plumb/interop/scalars.h"

namespace plumb {

/// Adds a table with a header line to `log`; cells separated by commas, semicolons or tabs (whichever the
/// header has most of), quoted as in RFC 4180. The first column whose name means the step (metric_of) is the
/// step. Empty cells, columns without a name, and cells of columns that hold no numbers are passed over,
/// except a loss: bad_input with file and line. A last line without a newline that lacks cells, or whose last
/// cell is no number, is left out and the log's warning says so.
void read_csv_log(std::string_view text, std::string_view name, ScalarLog& log);

/// Adds one JSON object a line, with a step and numbers, nested objects joined as "train/loss"; lines without
/// a step are counted in the log's warning and passed over. The literals NaN, Infinity and -Infinity, which
/// Python writes, are read. A last line without a newline that is no JSON is left out and the warning says
/// so. A text that is one JSON array, or one object with a `log_history`, is read as that list; in the
/// latter, the summary at the end (with `train_runtime`) is no measurement of a step and is left out.
void read_json_log(std::string_view text, std::string_view name, ScalarLog& log);

}  // namespace plumb
