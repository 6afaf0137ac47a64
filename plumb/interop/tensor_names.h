// What a tensor is for, read off its name. The names are those of Hugging Face's modelling code, Meta's
// Llama, nanoGPT and plumb; a name that is none of them stays unknown.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "plumb/interop/checkpoint_source.h"

namespace plumb {

enum class Part : std::uint8_t {
  q,
  k,
  v,
  qkv,
  latent,  // of multi-head latent attention: into and out of the compressed queries, or keys and values
  attn_out,
  gate,
  up,
  gate_up,
  down,
  router,  // matrices of a layer (and their biases)
  norm,
  q_norm,
  k_norm,
  latent_norm,  // norms of a layer
  scalar,       // a number that plumb learns beside these, of a layer or outside
  token_embed,
  pos_embed,
  head,
  project_in,
  project_out,  // matrices outside of the layers
  embed_norm,
  final_norm,
  rope_frequency,
  buffer,
  optimizer,  // no weights of the model
  side,       // another model in the same file (a vision tower)
  unknown
};

/// "attention output", "FFN gate", …
std::string_view part_name(Part part);

struct TensorName {
  Part part = Part::unknown;
  std::int64_t layer = -1;  // -1: outside of the layers
  std::string tower;        // what stands before the layer's number: "model.layers"
  std::string module;       // what the parameter belongs to: "input_layernorm", "q_proj"
  bool bias = false;        // a bias or a norm's shift
  bool expert = false;      // of one expert or of all of a mixture
};

TensorName read_tensor_name(std::string_view name);

struct NamedTensor {
  const SourceTensor* tensor = nullptr;
  TensorName name;
};

/// The tensors of a checkpoint's language model.
struct TensorMap {
  std::vector<NamedTensor> tensors;  // by layer, then by name; those outside of the layers first
  std::int64_t n_layer = 0;          // the highest layer number + 1
  std::string tower;                 // of the layers: "model.layers"
  std::vector<std::string> unknown;  // names that say nothing to us
  std::int64_t side = 0;             // tensors of another tower

  /// The first tensor of a part (biases aside), or nullptr.
  const SourceTensor* find(Part part) const;
  bool has(Part part) const { return find(part) != nullptr; }
  bool has_bias(Part part) const;
  /// The first tensor of an expert of a layer, or nullptr.
  const SourceTensor* find_expert() const;
  /// Whether a layer has a module of that name.
  bool has_module(std::string_view module) const;
  /// The names of the norms of a layer (q and k norms aside), each once, as they are in the first layer that
  /// has any.
  std::vector<std::string> layer_norms() const;
};

/// When several towers have numbered layers, the one with "vision", "audio" or "encoder" in its name is put
/// aside.
TensorMap map_tensors(const CheckpointSource& source);

}  // namespace plumb
