// What lies where in a run folder, and whose it is.
#pragma once
#include <filesystem>
#include <vector>

namespace plumb {

/// bad_input when `out` cannot become a run folder: it is no folder, cannot be looked at, or already holds a
/// run. What a run leaves that was killed before its first checkpoint, a trace without steps, is no run.
void refuse_used_folder(const std::filesystem::path& out);

/// Makes `wanted`, or wanted-2, wanted-3 … where there is such a folder already: of several processes each gets its own.
std::filesystem::path make_new_folder(const std::filesystem::path& wanted);

/// "checkpoint-<step>.safetensors"
std::string checkpoint_name(std::int64_t step);

/// The checkpoints of a run folder, the newest first.
std::vector<std::filesystem::path> checkpoints(const std::filesystem::path& run);

/// Deletes all but the newest `keep` checkpoints of a run folder, and halves of them that a killed process left.
void prune_checkpoints(const std::filesystem::path& run, std::int64_t keep);

/// A checkpoint file itself, or the newest of a run folder. bad_input when there is none, saying what to do.
std::filesystem::path newest_checkpoint(const std::filesystem::path& run_or_file);

}  // namespace plumb
