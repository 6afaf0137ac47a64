#include "plumb/registry/runs.h"

#include <sys/stat.h>

#include <algorithm>

#include "plumb/base/error.h"
#include "plumb/base/files.h"
#include "plumb/base/lock.h"
#include "plumb/config/config.h"
#include "plumb/trace/reader.h"

namespace plumb {
namespace fs = std::filesystem;
namespace {

bool is_run(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_regular_file(folder / "trace.jsonl", ignored) &&
         fs::is_regular_file(folder / "config.toml", ignored);
}

std::vector<std::string> settings_of(const Config& c) {
  static const Config defaults;
  std::vector<std::string> all;
  for (const auto& field : config_fields())
    if (const FieldValue v = field.get(c); field.get(defaults).index() != 0 && v != field.get(defaults))
      all.push_back(field.path() + " = " + field_text(v));
  return all;
}

bool matches(const RunSummary& r, const std::vector<std::string>& query) {
  return std::ranges::all_of(query, [&](const std::string& word) {
    auto has = [&](const std::string& text) { return text.find(word) != std::string::npos; };
    return has(r.path) || has(r.status) || std::ranges::any_of(r.settings, has);
  });
}

void find(const fs::path& folder, int depth, std::vector<RunSummary>& found) {
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (!it->is_directory(ignored) || it->is_symlink(ignored)) continue;
    if (is_run(it->path()))
      found.push_back(read_run(it->path()));
    else if (depth > 1)
      find(it->path(), depth - 1, found);
  }
}

}  // namespace

RunSummary read_run(const fs::path& run) {
  RunSummary r;
  r.path = run.string();
  r.status = "unfinished";
  std::error_code ignored;
  for (fs::directory_iterator it(run, ignored), end; !ignored && it != end; it.increment(ignored)) {
    std::error_code unreadable;
    if (it->is_regular_file(unreadable)) r.bytes += it->file_size(unreadable);
  }
  struct stat s {};
  if (stat((run / "trace.jsonl").c_str(), &s) == 0) r.changed_s = s.st_mtime;
  try {
    const Config config = load_config(run / "config.toml");
    r.of = config.train.steps;
    r.settings = settings_of(config);
    for (const StepRow& row : read_trace(run / "trace.jsonl").steps) {
      if (const double* v = row.find("val_loss")) r.val_loss = *v, r.steps = std::max(r.steps, row.step);
      if (const double* v = row.find("loss")) r.loss = *v, r.steps = std::max(r.steps, row.step + 1);
    }
    if (fs::exists(run / "manifest.json", ignored)) {
      const Json m = Json::parse(read_file(run / "manifest.json"), "manifest.json");
      if (const Json* status = m.find("status"); status && status->is_string() && *status != Json("running"))
        r.status = status->as_string("status");
      // A step that was not finite has its row, but no update.
      if (const Json* steps = m.find("steps"); steps && r.status != "unfinished")
        r.steps = steps->as_int("steps");
    }
  } catch (const Error& e) {
    r.status = "damaged";
    r.problem = e.what();
  }
  if (FolderLock::is_held(run)) r.status = "running";
  return r;
}

std::vector<RunSummary> list_runs(const fs::path& folder, const std::vector<std::string>& query) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored))
    bad_input("there is no folder {} with runs; `plumb train` makes one, or name another with --out",
              folder.string());
  std::vector<RunSummary> found;
  find(folder, 2, found);
  std::erase_if(found, [&](const RunSummary& r) { return !matches(r, query); });
  std::ranges::sort(found, {}, [](const RunSummary& r) { return std::pair(r.changed_s, r.path); });
  return found;
}

void remove_runs(std::vector<fs::path> runs, bool force) {
  for (fs::path& run : runs) {
    if (!run.has_filename()) run = run.parent_path();  // a slash at the end, as shells complete it
    std::error_code ignored;
    if (run.empty() || !is_run(run))
      bad_input("'{}' is no run folder; `plumb runs` lists those there are", run.string());
    // A link, or a path that ends in "/.", would have its target's files deleted and then fail itself.
    if (!run.has_filename() || run.filename() == "." || run.filename() == ".." ||
        fs::is_symlink(run, ignored))
      bad_input("{} is a link, or no folder's own name; give the folder itself",
                run.string());
    for (fs::directory_iterator it(run, ignored), end; !ignored && it != end; it.increment(ignored))
      if (!force && it->is_directory())
        bad_input("{} holds a folder, {}, that is no part of a run; move it away, or add --force",
                  run.string(), it->path().filename().string());
    const RunSummary r = read_run(run);
    if (r.status == "running") bad_input("{} is running; stop it first", run.string());
    if (!force && (r.status == "unfinished" || r.status == "damaged"))
      bad_input(
          "{} is {}; add --force to delete it all the same", run.string(),
          r.status == "unfinished" ? "unfinished, and could be resumed" : "damaged (" + r.problem + ")");
  }
  for (const fs::path& run : runs) {
    std::error_code error;
    fs::remove_all(run, error);
    if (error) fail("{} cannot be deleted: {}", run.string(), error.message());
  }
}

}  // namespace plumb
