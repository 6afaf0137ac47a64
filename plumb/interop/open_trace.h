// Any record of a training run that can be read as a trace.
#pragma once
#include <filesystem>

#include "plumb/trace/reader.h"

namespace plumb {

/// A run folder (its trace.jsonl, else the TensorBoard event files in it, in order of their names, which
/// begin with the time), a plumb trace, an event file, a CSV file, JSON Lines, or a trainer_state.json: told
/// apart by what is in it. `absent_metrics` says what the result cannot tell. bad_input when it is none of
/// them, or holds no number.
Trace open_trace(const std::filesystem::path& file_or_folder);

}  // namespace plumb
