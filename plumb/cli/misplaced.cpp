// What a person gave in place of what a command reads, and which command reads it.
#include <algorithm>
#include <filesystem>
#include <fstream>

#include "plumb/base/error.h"
#include "plumb/cli/flags.h"
#include "plumb/cli/say.h"

namespace plumb::cli {
namespace fs = std::filesystem;

void refuse_misplaced(const std::string& path, const std::string& command) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return;
  if (path.ends_with(".toml"))
    bad_input("{} is a config; `plumb {}` reads a model; look at the config's with `plumb profile {}`", path,
              command, path);
  const bool called_text = path.ends_with(".txt") || path.ends_with(".md");
  std::string start(4096, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(start.data(), static_cast<std::streamsize>(start.size()));
  start.resize(static_cast<std::size_t>(file.gcount()));
  if (start.starts_with("{\"row\":\"header\"")) {
    const std::string folder = fs::path(path).parent_path().string();
    bad_input("{} is a trace; `plumb compare {} OTHER` reads it; for `plumb {}` name the run's folder{}",
              path, path, command, folder.empty() ? "" : ", " + folder);
  }
  if (called_text)
    bad_input(
        "{} is a text; train on it with `plumb train --set data.corpus={}`, or name a model for `plumb {}`",
        path, path, command);
}

void note_unread(const Flags& f, const char* command, std::initializer_list<std::string_view> read) {
  for (const std::string& s : f.set) {
    const std::string key = s.substr(0, s.find_first_of(" ="));
    if ((key.starts_with("train.") || key.starts_with("probe.")) &&
        std::ranges::find(read, key) == read.end() && !f.quiet)
      say("note: {} has no effect on `plumb {}`\n", key, command);
  }
}

}  // namespace plumb::cli
