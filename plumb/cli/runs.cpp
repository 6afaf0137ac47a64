// plumb runs: what was trained.
#include "plumb/registry/runs.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <ctime>

#include "plumb/base/error.h"
#include "plumb/base/json.h"
#include "plumb/base/text.h"
#include "plumb/base/wrap.h"
#include "plumb/cli/flags.h"
#include "plumb/cli/live.h"
#include "plumb/cli/say.h"

namespace plumb::cli {
namespace {
namespace fs = std::filesystem;

std::string size_text(std::uint64_t bytes) {
  return bytes < 1'000'000 ? fmt::format("{:.0f} kB", static_cast<double>(bytes) / 1e3)
                           : fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
}

std::string number(const std::optional<double>& v) { return v ? number_text(*v, "{:.4f}") : "–"; }

Json run_json(const RunSummary& r) {
  Json j = Json::object();
  j["run"] = r.path;
  j["status"] = r.status;
  j["steps"] = r.steps;
  j["of"] = r.of;
  j["loss"] = r.loss ? Json(*r.loss) : Json();
  j["val_loss"] = r.val_loss ? Json(*r.val_loss) : Json();
  j["bytes"] = static_cast<std::int64_t>(r.bytes);
  j["changed"] = r.changed_s;
  j["settings"] = Json(r.settings);
  if (!r.problem.empty()) j["problem"] = r.problem;
  return j;
}

constexpr std::size_t columns_beside = 78;  // what a row takes beside its path and its settings
constexpr std::size_t least_settings = 20;

// One line a run where there is room for it; on a narrower terminal the path and the settings have lines of
// their own, so that a long path pushes nothing out of sight.
void print_table(const std::vector<RunSummary>& runs) {
  std::size_t width = 4;
  for (const RunSummary& r : runs) width = std::max(width, display_width(r.path));
  const bool narrow =
      isatty(STDOUT_FILENO) != 0 && width + columns_beside + least_settings > terminal_width();
  const auto made_wrong = [](const RunSummary& r) {
    return std::ranges::any_of(r.settings,
                               [](const std::string& s) { return s.starts_with("fault.inject"); });
  };
  const auto line = [&](const std::string& path, const std::string& row, const std::string& settings) {
    if (!narrow)
      fmt::print("{}\n", cut_to_terminal(fmt::format("{:<{}}  {}  {}", path, width, row, settings)));
    else
      fmt::print("{}\n{}\n{}\n", shortened(path, terminal_width()), cut_to_terminal("  " + row),
                 cut_to_terminal("    " + settings));
  };
  line("run",
       fmt::format("{:<16}  {:<12} {:>13} {:>8} {:>10} {:>9}", "changed", "status", "steps", "loss",
                   "validation", "size"),
       "not as by default");
  for (const RunSummary& r : runs)
    line(r.path,
         fmt::format("{:%Y-%m-%d %H:%M}  {:<12} {:>13} {:>8} {:>10} {:>9}",
                     fmt::localtime(static_cast<std::time_t>(r.changed_s)),
                     r.status + (made_wrong(r) ? "*" : ""), fmt::format("{}/{}", r.steps, r.of),
                     number(r.loss), number(r.val_loss), size_text(r.bytes)),
         r.problem.empty() ? join(r.settings) : r.problem);
  if (std::ranges::any_of(runs, made_wrong)) fmt::print("* with a fault on purpose, [fault] in its config\n");
}

}  // namespace

int runs_command(const Flags& f) {
  const std::string folder = f.out.empty() ? "runs" : f.out;
  std::vector<std::string> words = f.args;
  const std::string verb = words.empty() ? "" : words.front();
  if (verb == "rm") {
    words.erase(words.begin());
    if (words.empty()) bad_input("name the runs to delete: `plumb runs rm runs/…`");
    remove_runs({words.begin(), words.end()}, f.force);
    if (!f.quiet) say("deleted {}\n", join(words));
    return 0;
  }
  if (verb == "du") words.erase(words.begin());
  auto runs = list_runs(folder, words);
  if (verb == "du") std::ranges::sort(runs, std::greater<>(), &RunSummary::bytes);
  std::uint64_t total = 0;
  for (const RunSummary& r : runs) total += r.bytes;
  if (f.json) {
    Json j = Json::object(), all = Json::array();
    for (const RunSummary& r : runs) all.push_back(run_json(r));
    j["runs"] = all;
    j["bytes"] = static_cast<std::int64_t>(total);
    fmt::print("{}\n", j.dump());
    return 0;
  }
  if (runs.empty()) {
    fmt::print("no run in {}{}\n", folder, words.empty() ? "" : " matches " + join(words, " "));
    return 0;
  }
  print_table(runs);
  fmt::print("{} run{}, {}\n", runs.size(), runs.size() == 1 ? "" : "s", size_text(total));
  return 0;
}

}  // namespace plumb::cli
