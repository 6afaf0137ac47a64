// The runs that lie in a folder, as their own files tell. An index over many of them comes later.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace plumb {

struct RunSummary {
  std::string path;
  std::string status;              // done, interrupted, non_finite, running, unfinished (killed), damaged
  std::int64_t steps = 0, of = 0;  // updates known to the trace, and asked for
  std::optional<double> loss, val_loss;  // the last of each
  std::uint64_t bytes = 0;
  std::int64_t changed_s = 0;  // seconds since 1970 of the trace's last change
  /// Settings that are not the defaults: "model.placement = \"post\"", …
  std::vector<std::string> settings;
  std::string problem;  // damaged: what is wrong
};

/// One run folder. Never throws for what is in it: a folder that cannot be read is `damaged`.
RunSummary read_run(const std::filesystem::path& run);

/// All run folders in `folder`, at most two levels down, oldest first. A word of `query` must be part of the
/// path, the status or a setting; all words must. bad_input when there is no such folder.
std::vector<RunSummary> list_runs(const std::filesystem::path& folder, const std::vector<std::string>& query);

/// Deletes run folders with all they hold. bad_input, before anything is deleted, when one of them is no run
/// folder, is running, or is unfinished or damaged and `force` is not given.
void remove_runs(std::vector<std::filesystem::path> runs, bool force);

}  // namespace plumb
