// A run or checkpoint opened to be looked at: its model with its weights.
#pragma once
#include <filesystem>

#include "plumb/data/tokenizer.h"
#include "plumb/model/components.h"
#include "plumb/train/checkpoint.h"

namespace plumb {

struct Opened {
  std::filesystem::path checkpoint;
  CheckpointInfo info;
  CharTokenizer tokenizer;
  ParamStore<float> store;
};

/// The newest checkpoint of a run folder, or the checkpoint file itself. bad_input as load_checkpoint.
Opened open_run(const std::filesystem::path& run_or_checkpoint, const Components&);

}  // namespace plumb
