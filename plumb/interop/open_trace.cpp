#include "plumb/interop/open_trace.h"

#include <algorithm>
#include <fstream>

#include "plumb/base/error.h"
#include "plumb/base/files.h"
#include "plumb/interop/tensorboard.h"
#include "plumb/interop/text_log.h"

namespace plumb {
namespace fs = std::filesystem;
namespace {

// A log takes about 30 times its size in memory while it is read.
constexpr std::uint64_t max_log_bytes = std::uint64_t{256} << 20, max_trace_bytes = std::uint64_t{2} << 30;

Trace finished(const ScalarLog& log, const std::string& producer, const fs::path& name) {
  if (log.empty())
    bad_input("{} holds no number by step; name a log of the loss, or a plumb trace", name.string());
  return log.trace(producer);
}

[[noreturn]] void refuse_size(const std::string& name, std::string_view what, std::uint64_t most) {
  bad_input("{} is larger than the {} MB that a {} may have; thin it out, or cut it in parts", name,
            most >> 20, what);
}

// Without a byte order mark and white space at its start.
std::string_view after_blanks(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  return text;
}

bool is_ours(std::string_view text) {
  return text.substr(0, text.find('\n')).find("\"plumb-trace") != std::string_view::npos;
}

// All of a file, or of a pipe. A trace of plumb's may be longer than a log: that is told from the first line, before the rest is
// read.
std::string bytes_of(const fs::path& path) {
  std::error_code ignored;
  std::uint64_t most = max_log_bytes;
  if (const bool regular = fs::is_regular_file(path, ignored);
      regular && fs::file_size(path, ignored) > most) {
    std::string head(4096, '\0');
    std::ifstream file(path, std::ios::binary);
    if (file.read(head.data(), static_cast<std::streamsize>(head.size()))) {
      if (!is_ours(after_blanks(head))) refuse_size(path.string(), "log", most);
      most = max_trace_bytes;
      if (fs::file_size(path, ignored) > most) refuse_size(path.string(), "trace", most);
    }
  }
  return read_file(path, most);
}

std::vector<fs::path> event_files(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (it->is_regular_file(ignored) && it->path().filename().string().find("tfevents") != std::string::npos)
      files.push_back(it->path());
  }
  std::ranges::sort(files);
  return files;
}

Trace open_folder(const fs::path& folder) {
  std::error_code ignored;
  if (const fs::path trace = folder / "trace.jsonl"; fs::exists(trace, ignored))
    return parse_trace(bytes_of(trace), trace.string());
  const auto files = event_files(folder);
  if (files.empty())
    bad_input(
        "{} holds neither a trace.jsonl nor TensorBoard event files; `plumb runs` lists the runs there are",
        folder.string());
  ScalarLog log;
  for (const fs::path& file : files) read_tensorboard(read_file(file, max_log_bytes), file.string(), log);
  return finished(log, "TensorBoard", folder);
}

}  // namespace

Trace open_trace(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return open_folder(path);
  const std::string name = path.string();
  const std::string bytes = bytes_of(path);
  const std::string_view text = after_blanks(bytes);
  if (text.empty()) bad_input("{} is empty; name a trace or a log", name);
  if (is_ours(text)) return parse_trace(bytes, name);
  ScalarLog log;
  if (is_tensorboard(bytes)) {
    read_tensorboard(bytes, name, log);
    return finished(log, "TensorBoard", path);
  }
  if (text.starts_with('{') || text.starts_with('[')) {
    read_json_log(text, name, log);
    return finished(log, "JSON Lines", path);
  }
  if (text.find('\0') != std::string_view::npos)
    bad_input(
        "{} is no trace, TensorBoard event file, CSV file or JSON Lines; check that it is the right file",
        name);
  read_csv_log(text, name, log);
  return finished(log, "CSV", path);
}

}  // namespace plumb
