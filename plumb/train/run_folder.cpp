#include "plumb/train/run_folder.h"

#include <algorithm>
#include <charconv>
#include <string>

#include "plumb/base/error.h"
#include "plumb/base/files.h"
#include "plumb/trace/reader.h"

namespace plumb {
namespace fs = std::filesystem;
namespace {

// No trace, or one that says nothing of a step: all that a run leaves which was killed before its first
// checkpoint.
bool is_barren(const fs::path& trace) {
  std::error_code error;
  if (!fs::exists(trace, error)) return !error;
  try {
    const std::string text = read_file(trace);
    return text.find('\n') == std::string::npos || parse_trace(text, trace.string()).steps.empty();
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

void refuse_used_folder(const fs::path& out) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(out, error);
  if (status.type() == fs::file_type::not_found) return;
  if (error)
    bad_input("{} cannot be a run folder: {}; name another with --out", out.string(), error.message());
  if (!fs::is_directory(out, error))
    bad_input("{} is not a folder; name a folder for the run with --out", out.string());
  if (!checkpoints(out).empty() || !is_barren(out / "trace.jsonl"))
    bad_input("{} already holds a run; continue it with `plumb resume`, or name another folder with --out",
              out.string());
}

fs::path make_new_folder(const fs::path& wanted) {
  if (wanted.has_parent_path()) make_dirs(wanted.parent_path());
  fs::path name = wanted;
  std::error_code error;
  for (int n = 2; !fs::create_directory(name, error); ++n) {
    if (error)
      bad_input("cannot make the folder {}: {}; name another with --out", name.string(), error.message());
    name = wanted.string() + "-" + std::to_string(n);
  }
  return name;
}

std::string checkpoint_name(std::int64_t step) {
  return "checkpoint-" + std::to_string(step) + ".safetensors";
}

std::vector<fs::path> checkpoints(const fs::path& run) {
  std::vector<std::pair<std::int64_t, fs::path>> found;
  std::error_code error;
  for (fs::directory_iterator it(run, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    std::int64_t step = 0;
    if (!name.starts_with("checkpoint-")) continue;
    const auto [stop, bad] = std::from_chars(name.data() + 11, name.data() + name.size(), step);
    if (bad == std::errc() && step >= 0 && std::string_view(stop) == ".safetensors")
      found.emplace_back(step, it->path());
  }
  std::ranges::sort(found, std::greater<>());
  std::vector<fs::path> paths;
  for (auto& [step, path] : found) paths.push_back(std::move(path));
  return paths;
}

void prune_checkpoints(const fs::path& run, std::int64_t keep) {
  const auto all = checkpoints(run);
  std::error_code ignored;
  for (auto i = static_cast<std::size_t>(std::max<std::int64_t>(1, keep)); i < all.size(); ++i)
    fs::remove(all[i], ignored);
  // What a killed process was writing.
  for (fs::directory_iterator it(run, ignored), end; !ignored && it != end; it.increment(ignored))
    if (const std::string name = it->path().filename().string();
        name.starts_with("checkpoint-") && name.ends_with(".tmp"))
      fs::remove(it->path(), ignored);
}

fs::path newest_checkpoint(const fs::path& run_or_file) {
  std::error_code error;
  const fs::file_status status = fs::status(run_or_file, error);
  if (status.type() == fs::file_type::not_found)
    bad_input("there is no run {}; `plumb runs` lists those there are", run_or_file.string());
  if (!fs::is_directory(status)) return run_or_file;
  const auto all = checkpoints(run_or_file);
  if (all.empty())
    bad_input("{} holds no checkpoint; name a run folder that `plumb train` wrote, or a checkpoint file",
              run_or_file.string());
  return all.front();
}

}  // namespace plumb
