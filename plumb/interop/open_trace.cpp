#include "plumb/interop/open_trace.h"

#include <algorithm>

#include "plumb/base/error.h"
#include "plumb/base/files.h"
#include "plumb/interop/tensorboard.h"
#include "plumb/interop/text_log.h"

namespace plumb {
namespace fs = std::filesystem;
namespace {

constexpr std::uint64_t max_log_bytes = std::uint64_t{2} << 30;

void add(std::string& warnings, const std::string& w) {
  if (!w.empty()) warnings += (warnings.empty() ? "" : "; ") + w;
}

// What is in `scalars`, with what was tolerated while reading them.
Trace finished(const std::vector<Scalar>& scalars, const std::string& producer, const std::string& name,
               const std::string& warning) {
  if (scalars.empty())
    bad_input("{} holds no number by step; name a log of the loss, or a plumb trace", name);
  Trace t = trace_of_scalars(scalars, producer);
  std::string all = warning;
  add(all, t.warning);
  t.warning = std::move(all);
  return t;
}

std::vector<fs::path> event_files(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    if (it->path().filename().string().find("tfevents") != std::string::npos) files.push_back(it->path());
  std::ranges::sort(files);
  return files;
}

Trace open_folder(const fs::path& folder) {
  std::error_code ignored;
  if (fs::exists(folder / "trace.jsonl", ignored)) return read_trace(folder / "trace.jsonl");
  std::vector<Scalar> all;
  std::string warning;
  const auto files = event_files(folder);
  if (files.empty())
    bad_input(
        "{} holds neither a trace.jsonl nor TensorBoard event files; `plumb runs` lists the runs there are",
        folder.string());
  for (const fs::path& file : files) {
    std::string w;
    const std::string bytes = read_file(file, max_log_bytes);
    const auto scalars = read_tensorboard(bytes, file.string(), w);
    all.insert(all.end(), scalars.begin(), scalars.end());
    add(warning, w);
  }
  return finished(all, "TensorBoard", folder.string(), warning);
}

}  // namespace

Trace open_trace(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return open_folder(path);
  const std::string bytes = read_file(path, max_log_bytes), name = path.string();
  std::string warning;
  if (is_tensorboard(bytes)) {
    const auto scalars = read_tensorboard(bytes, name, warning);
    return finished(scalars, "TensorBoard", name, warning);
  }
  const std::size_t first = bytes.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) bad_input("{} is empty; name a trace or a log", name);
  if (bytes[first] != '{') {
    if (bytes.find('\0') != std::string::npos)
      bad_input(
          "{} is no trace, TensorBoard event file, CSV file or JSON Lines; check that it is the right file",
          name);
    const auto scalars = read_csv_log(bytes, name, warning);
    return finished(scalars, "CSV", name, warning);
  }
  const std::string_view head = std::string_view(bytes).substr(first, bytes.find('\n', first) - first);
  if (head.find("\"schema\"") != std::string_view::npos) return parse_trace(bytes, name);
  const auto scalars = read_json_log(bytes, name, warning);
  return finished(scalars, "JSON Lines", name, warning);
}

}  // namespace plumb
