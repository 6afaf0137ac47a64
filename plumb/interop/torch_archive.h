// PyTorch checkpoints (torch.save since 1.6): a zip file with a pickle, which is read and not run, and the
// storages that it refers to. https://github.com/pytorch/pytorch/blob/v1.13.1/torch/serialization.py
#pragma once
#include "plumb/interop/checkpoint_source.h"

namespace plumb {

/// Adds the tensors of file `number` of the source, which lies at `path`. The state dict may be the whole
/// pickle or stand under "model", "state_dict", "model_state_dict" or "module"; nanoGPT's "model_args" become
/// the config. bad_input for whatever is not that.
void add_torch_archive(CheckpointSource& source, const std::filesystem::path& path, std::size_t number);

/// Whether a file that begins so is an archive, or an older pickle, which add_torch_archive refuses with
/// advice.
bool is_torch_file(std::string_view first_bytes);

}  // namespace plumb
