// Checkpoints: everything a run needs to go on, as a safetensors file without time stamps.
#pragma once
#include <filesystem>

#include "plumb/config/config.h"
#include "plumb/data/tokenizer.h"
#include "plumb/optim/optim.h"
#include "plumb/spec/spec.h"

namespace plumb {

/// What surrounds the tensors of a checkpoint.
struct CheckpointInfo {
  Config config;  // resolved
  DecoderSpec spec;
  Json tokenizer;
  std::int64_t step = 0;           // updates applied
  std::string target;              // instruction set that made it: other targets may give other bits
  std::string corpus_sha256 = {};  // empty: written before checkpoints said so
  std::string probes = {};         // what they must know of earlier steps; empty: nothing
};

/// Writes parameters by name, the optimiser's state `optim.<kind>.*` (adamw: m, v), saved state `state.*`,
/// and the metadata. Atomic; the same state gives the same bytes.
void save_checkpoint(const std::filesystem::path&, const CheckpointInfo&, const ParamStore<float>&,
                     const Optimizer<float>&);

/// Reads what save_checkpoint wrote into a store and an optimiser of the same layout; every tensor must be
/// there with its shape, and none of another optimiser. bad_input names the tensor and both shapes otherwise.
CheckpointInfo load_checkpoint(const std::filesystem::path&, ParamStore<float>&, Optimizer<float>&);

/// The metadata alone (to build the model first).
CheckpointInfo read_checkpoint_info(const std::filesystem::path&);

/// Reads parameters and saved state alone, by name, into a store that may have another layout (`train
/// --from`). A tensor of the same name must have the same shape: bad_input names both. Also bad_input when no
/// parameter is found at all.
struct WeightsReport {
  std::int64_t taken = 0;
  std::vector<std::string> missing;  // parameters of the store that the checkpoint lacks: left as drawn
  std::vector<std::string> unused;   // parameters of the checkpoint that the store lacks
};
WeightsReport load_weights(const std::filesystem::path&, ParamStore<float>&);

}  // namespace plumb
