// plumb inspect: what somebody else's model is, answered from its config, its tensors' names and shapes, and
// its weights.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "plumb/base/json.h"
#include "plumb/interop/answers.h"
#include "plumb/interop/weight_stats.h"

namespace plumb {

struct InspectOptions {
  bool weights = true;  // false: names and shapes alone
  WeightOptions measure;
};

struct Inspection {
  std::string source, format;
  std::string architecture, architecture_because;
  std::optional<std::int64_t> n_layer, d_model, n_head, n_kv_head, d_head, d_ff, vocab_size, block_size;
  Answer placement, norm, final_norm, scaled_init, position, attention, ffn, qk_norm, tied;
  Json details;  // eps, gain convention, windows, soft caps …: what the config says beyond the questions
  bool measured = false;
  WeightStats weights;
  std::vector<std::string> warnings;  // full sentences
  std::vector<std::string> notes;     // likewise, of what was not looked at
};

/// Never guesses: what neither config nor tensors decide is "unknown". Where they contradict each other, the
/// tensors win and a warning names both.
Inspection inspect(const CheckpointSource& source, const InspectOptions& options = {});

/// One object: the answers by their names (final_norm and tied as true, false or null), "evidence" with a
/// clause for each, sizes, details, "layers" and "ends" with the statistics, "warnings", "notes".
Json to_json(const Inspection& inspection);

}  // namespace plumb
