// plumb compare: runs beside each other, also those of other trainers.
#include "plumb/report/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "plumb/base/error.h"
#include "plumb/base/files.h"
#include "plumb/base/text.h"
#include "plumb/cli/flags.h"
#include "plumb/cli/live.h"
#include "plumb/cli/say.h"
#include "plumb/interop/open_trace.h"

namespace plumb::cli {
namespace {

std::vector<NamedTrace> open_traces(const std::vector<std::string>& runs, bool quiet) {
  std::vector<NamedTrace> traces;
  std::set<std::string> short_names;
  for (const std::string& run : runs) {
    NamedTrace t{folder_name(run), open_trace(run)};
    if (!short_names.insert(t.name).second) t.name = run;
    if (!t.trace.warning.empty() && !quiet) say("note: {}: {}\n", run, t.trace.warning);
    // Our own traces lack what a run has none of (an auxiliary loss); another trainer's, what it did not log.
    const bool ours = t.trace.header.producer.starts_with("plumb");
    if (const auto absent = absent_metrics(t.trace); !ours && !absent.empty() && !quiet) {
      constexpr std::size_t most = 12;
      const auto shown = std::span(absent).first(std::min(most, absent.size()));
      say("note: {} has no {}{}: what they would tell cannot be known from it\n", run,
          join(std::vector<std::string>(shown.begin(), shown.end())),
          absent.size() > most ? fmt::format(" and {} more (docs/trace.md)", absent.size() - most) : "");
    }
    traces.push_back(std::move(t));
  }
  return traces;
}

}  // namespace

int compare_command(const Flags& f) {
  if (f.args.size() < 2) bad_input("name at least two runs: `plumb compare runs/a runs/b`");
  const auto traces = open_traces(f.args, f.quiet);
  if (f.json)
    fmt::print("{}\n", compare_json(traces).dump());
  else
    fmt::print("{}", compare_text(traces, plot_width()));
  return 0;
}

}  // namespace plumb::cli
