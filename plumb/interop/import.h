// Somebody else's decoder as a spec and parameters of ours.
#pragma once
#include <filesystem>

#include "plumb/model/components.h"
#include "plumb/plan/params.h"

namespace plumb {

struct Imported {
  DecoderSpec spec;
  ParamStore<float> store;
  std::vector<std::string> warnings;  // config and tensors that contradict each other
};

/// Reads a checkpoint of Hugging Face's layout of an architecture that `inspect` knows: its config gives the
/// spec, its tensors the parameters (fused and transposed matrices taken apart, gains stored as w kept so).
/// bad_input, in one sentence, for what plumb has no part for, and for a tensor that is missing, left over, not
/// readable or of another shape.
Imported import_model(const std::filesystem::path& what, const Components&);

}  // namespace plumb
