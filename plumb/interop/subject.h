// A checkpoint together with what is known about it: the ground on which inspect's answers stand.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "plumb/interop/checkpoint_source.h"
#include "plumb/interop/hf_layout.h"
#include "plumb/interop/tensor_names.h"
#include "plumb/spec/spec.h"

namespace plumb {

/// A checkpoint and everything that its config and its names and shapes say. Sizes are empty where neither
/// says; where both do, they are the tensors'.
struct Subject {
  const CheckpointSource& source;
  TensorMap map;
  HfConfig config;
  const Architecture* arch = nullptr;  // nullptr: not one of the table
  std::string architecture, architecture_because;
  std::optional<DecoderSpec> spec;  // of a checkpoint that plumb wrote

  bool has_tensors = false;  // of layers that we recognise, or of the parts around them
  bool complete = false;     // every tensor is in sight: an absent one is absent
  bool transposed = false;   // GPT-2's Conv1D: matrices are [in, out]

  std::optional<std::int64_t> n_layer, d_model, n_head, n_kv_head, d_head, d_ff, vocab_size, block_size;
  std::optional<std::int64_t> q_width, kv_width;  // output channels, from the tensors

  std::vector<std::string> warnings;  // config and tensors that contradict each other

  explicit Subject(const CheckpointSource& source);

  /// Output and input channels of a matrix, whichever way it is stored.
  std::int64_t out_of(const SourceTensor& t) const { return t.shape[transposed ? 1 : 0]; }
  std::int64_t in_of(const SourceTensor& t) const { return t.shape[transposed ? 0 : 1]; }
  /// Multi-head latent attention, by its tensors, or by the config where no tensor makes keys.
  bool has_latent_attention() const;
  /// "config.json", as the reader knows it.
  std::string config_said() const;
  /// The config's `key`: no, yes or unclear; without the key the default that the architecture has.
  Said flag_or(FlagKey key, bool otherwise) const;
};

/// Bytes with two weights of four bits each have another shape than the matrix that they stand for.
bool is_packed(const SourceTensor& t);

}  // namespace plumb
