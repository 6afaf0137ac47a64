// What lies where in a run folder, and whose it is.
#pragma once
#include <filesystem>
#include <vector>

namespace plumb {

/// bad_input when `out` cannot become a run folder: it is no folder, cannot be looked at, or already holds a
/// run.
void refuse_used_folder(const std::filesystem::path& out);

/// Makes the folder and takes it: of two runs that start in one folder at the same moment only one may go on.
void claim_folder(const std::filesystem::path& out);

/// Held for as long as a run is written: bad_input when another process (or another run of this one) holds
/// it. The system releases it however a process ends.
class RunLock {
 public:
  explicit RunLock(const std::filesystem::path& run);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  int fd_;
};

/// "checkpoint-<step>.safetensors"
std::string checkpoint_name(std::int64_t step);

/// The checkpoints of a run folder, the newest first.
std::vector<std::filesystem::path> checkpoints(const std::filesystem::path& run);

/// Deletes all but the newest `keep` checkpoints of a run folder.
void prune_checkpoints(const std::filesystem::path& run, std::int64_t keep);

/// A checkpoint file itself, or the newest of a run folder. bad_input when there is none, saying what to do.
std::filesystem::path newest_checkpoint(const std::filesystem::path& run_or_file);

}  // namespace plumb
