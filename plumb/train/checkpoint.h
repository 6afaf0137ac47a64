// Checkpoints: everything a run needs to go on, as a safetensors file without time stamps.
#pragma once
#include <filesystem>

#include "plumb/config/config.h"
#include "plumb/data/tokenizer.h"
#include "plumb/optim/adamw.h"
#include "plumb/spec/spec.h"

namespace plumb {

/// What surrounds the tensors of a checkpoint.
struct CheckpointInfo {
  Config config;  // resolved
  DecoderSpec spec;
  Json tokenizer;
  std::int64_t step = 0;  // updates applied
  std::string target;     // instruction set that made it: other targets may give other bits
};

/// Writes parameters by name, `optim.m.*`, `optim.v.*`, saved state `state.*`, and the metadata. Atomic; the same state
/// gives the same bytes.
void save_checkpoint(const std::filesystem::path&, const CheckpointInfo&, const ParamStore<float>&, const AdamW<float>&);

/// Reads what save_checkpoint wrote into a store and an optimiser of the same layout; every tensor must be there with its
/// shape. bad_input names the tensor and both shapes otherwise.
CheckpointInfo load_checkpoint(const std::filesystem::path&, ParamStore<float>&, AdamW<float>&);

/// The metadata alone (to build the model first).
CheckpointInfo read_checkpoint_info(const std::filesystem::path&);

/// "checkpoint-<step>.safetensors"
std::string checkpoint_name(std::int64_t step);

/// Deletes all but the newest `keep` checkpoints of a run folder.
void prune_checkpoints(const std::filesystem::path& run, std::int64_t keep);

}  // namespace plumb
