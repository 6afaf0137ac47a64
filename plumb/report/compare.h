// Runs beside each other: curves, last values, and what differs in their configs. Reads traces alone.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "plumb/base/json.h"
#include "plumb/trace/reader.h"

namespace plumb {

struct NamedTrace {
  std::string name;
  Trace trace;
};

/// A key whose value is not the same in all configs that are known, with the value in each ("–" where it has
/// none, "?" where a trace has no config).
struct Difference {
  std::string key;
  std::vector<std::string> values;
};
std::vector<Difference> config_differences(const std::vector<NamedTrace>&);

/// Last value of every scalar, and first block, last block and mean of every per-layer metric, by metric in
/// order of first appearance. `train_loss` is RecentLoss. Where a run has none, NaN and step -1.
struct Measured {
  std::string metric;
  std::vector<double> values;
  std::vector<std::int64_t> steps;  // at which each was measured
};
std::vector<Measured> last_values(const std::vector<NamedTrace>&);

/// The whole comparison for a terminal: curves of the training loss in a frame of `width` characters, the table, the
/// differences.
std::string compare_text(const std::vector<NamedTrace>&, std::size_t width = 72);
/// {"runs": [name …], "last": {metric: [x …]}, "last_step": {metric: [step …]},
///  "config": {key: [text …]}}
Json compare_json(const std::vector<NamedTrace>&);

}  // namespace plumb
