// plumb doctor: what is wrong with a config, a run, or a trace from anywhere.
#include "plumb/doctor/doctor.h"

#include <fmt/format.h>

#include "plumb/base/error.h"
#include "plumb/cli/flags.h"
#include "plumb/cli/interrupt.h"
#include "plumb/cli/live.h"
#include "plumb/cli/say.h"
#include "plumb/interop/open_trace.h"
#include "plumb/study/audit.h"
#include "plumb/train/checkpoint.h"
#include "plumb/train/run_folder.h"

namespace plumb::cli {
namespace {
namespace fs = std::filesystem;

Trace looked_into(const Config& config, const Flags& f) {
  AuditOptions o;
  if (!f.quiet) o.progress = [](std::string_view what) { say("looking: {}\n", what); };
  o.interrupted = interrupted;
  listen_for_interrupts();
  return audit(config, Components{}, open_corpus(config.data.corpus, f.quiet), o);
}

// What the run recorded, and what its model does when it is built again: the model is the judge of its structure.
Trace of_run(const fs::path& run, const Flags& f) {
  const Config config = read_checkpoint_info(newest_checkpoint(run)).config;
  Trace recorded = open_trace(run), t = looked_into(config, f);
  if (!recorded.steps.empty()) t.steps = std::move(recorded.steps);
  recorded.facts.insert(recorded.facts.end(), t.facts.begin(), t.facts.end());
  t.facts = std::move(recorded.facts);
  t.warning = recorded.warning;
  return t;
}

}  // namespace

int doctor_command(const Flags& f) {
  if (f.args.size() > 1) bad_input("name one config, run or trace: `plumb doctor runs/…`");
  const std::string what = f.args.empty() ? "" : f.args.front();
  std::error_code ignored;
  const bool ours = fs::is_directory(what, ignored) && fs::exists(fs::path(what) / "config.toml", ignored);
  const bool is_config = what.empty() || what.ends_with(".toml");
  if (!is_config && !f.set.empty()) bad_input("--set changes a config; {} is a record of what was", what);
  const Trace t = is_config ? looked_into(config_of(what, f.set), f)
                  : ours    ? of_run(what, f)
                            : open_trace(what);
  if (!t.warning.empty() && !f.quiet) say("note: {}: {}\n", what, t.warning);
  const auto causes = doctor_table();
  const Diagnosis d = diagnose(t, causes);
  if (f.json)
    fmt::print("{}\n", diagnosis_json(d, causes).dump());
  else
    fmt::print("{}", diagnosis_text(d, causes, static_cast<int>(terminal_width())));
  return d.verdict == "healthy" ? 0 : d.verdict == "sick" ? 3 : 5;
}

}  // namespace plumb::cli
