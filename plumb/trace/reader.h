// Reads a trace, ours or another producer's.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "plumb/trace/trace.h"

namespace plumb {

struct Trace {
  TraceHeader header;
  std::vector<FactRow> facts;  // in file order
  std::vector<StepRow> steps;  // in file order
  std::string warning;  // what was tolerated ("the last row … is torn and was left out"); empty: nothing

  /// The last value of a fact, or nullptr.
  const Json* fact(std::string_view name) const;
};

/// Reads a whole trace. A last line that is cut off is left out and said in `warning`. bad_input, with file
/// and line, for a file that is no trace, another schema version, a broken row in the middle, or a checksum
/// that does not match. Row kinds, values and keys that this version does not know are skipped.
Trace read_trace(const std::filesystem::path& path);

/// The same for text in memory; `name` is what errors call it.
Trace parse_trace(std::string_view text, std::string_view name);

/// The metrics of docs/trace.md of which the trace has no value at all: what it cannot tell.
std::vector<std::string_view> absent_metrics(const Trace&);

/// Where a trace may be cut by a run that goes on from `from_step`: the number of bytes before the first step row of a
/// later step, or of that step without a validation loss (which comes before the checkpoint, and is not measured again),
/// without a last row that has no newline. Same errors, and bad_input when the header itself is cut off.
std::size_t trace_keep_bytes(std::string_view text, std::string_view name, std::int64_t from_step);

}  // namespace plumb
