// plumb doctor: what is wrong with a config, a run, or a trace from anywhere.
#include "plumb/doctor/doctor.h"

#include <fmt/format.h>

#include "plumb/base/clock.h"
#include "plumb/base/error.h"
#include "plumb/base/files.h"
#include "plumb/cli/flags.h"
#include "plumb/cli/interrupt.h"
#include "plumb/cli/live.h"
#include "plumb/cli/say.h"
#include "plumb/interop/open_trace.h"
#include "plumb/study/audit.h"
#include "plumb/study/bug_reports.h"
#include "plumb/study/confirm.h"
#include "plumb/study/scorecard.h"
#include "plumb/study/trained_score.h"
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
Trace of_run(const fs::path& run, const Config& config, const Flags& f) {
  Trace recorded = open_trace(run), t = looked_into(config, f);
  if (!recorded.steps.empty()) t.steps = std::move(recorded.steps);
  recorded.facts.insert(recorded.facts.end(), t.facts.begin(), t.facts.end());
  t.facts = std::move(recorded.facts);
  t.warning = recorded.warning;
  return t;
}

// The first finding alone: nine runs are long enough.
void confirm_first(Diagnosis& d, const Config& config, const Flags& f) {
  if (d.findings.empty()) return;
  ConfirmOptions o{.steps = f.confirm_steps, .interrupted = interrupted};
  const double begun = now_s();
  o.progress = [&](int run, int runs) {
    if (f.quiet) return;
    const double s = now_s() - begun;
    say("confirming {}: run {} of {}{}\n", d.findings.front().cause, run + 1, runs,
        run ? ", " + duration(s / run * (runs - run)) + " left" : "");
  };
  const Confirmation c =
      confirm(config, d.findings.front().patch, Components{}, open_corpus(config.data.corpus, f.quiet), o);
  d.findings.front().confirmed = c.confirmed;
  d.findings.front().confirmation = c.because;
}

int self_test(const Flags& f) {
  if (!f.args.empty() || !f.set.empty())
    bad_input("--self-test draws its own models; leave CONFIG and --set out");
  listen_for_interrupts();
  const auto told = [&](const char* what) {
    return [&f, what, begun = now_s(), said = std::size_t{0}](std::size_t done, std::size_t all) mutable {
      if (f.quiet || done < said) return;
      said = done + std::max<std::size_t>(1, all / 20);
      const double s = now_s() - begun;
      say("{} of {} {}{}\n", done, all, what,
          done ? ", " + duration(s / static_cast<double>(done) * static_cast<double>(all - done)) + " left"
               : "");
    };
  };
  const Corpus corpus = open_corpus("embedded", f.quiet);
  const Components components;
  const ScoreOptions o{.salt = f.salt,
                       .per_fault = f.cases,
                       .healthy = f.healthy,
                       .progress = told("looked into"),
                       .interrupted = interrupted};
  const auto cases = score(o, components, corpus);
  std::string page = score_markdown(cases, o);
  Json answer = score_json(cases, o);
  page += "\n## Faults of real projects\n\n" + bug_reports_markdown(components, corpus, interrupted);
  if (f.trained) {
    std::vector<ScoreCase> first;
    for (const ScoreCase& c : cases)
      if (first.empty() || first.back().fault != c.fault) first.push_back(c);
    const TrainedOptions t{.progress = told("trained"), .interrupted = interrupted};
    const auto trained = score_trained(first, t, components, corpus);
    page += "\n" + trained_markdown(trained, t);
    answer["trained"] = trained_json(trained);
  }
  if (!f.out.empty()) write_file_atomic(f.out, page);
  if (f.json)
    fmt::print("{}\n", answer.dump());
  else if (f.out.empty())
    fmt::print("{}", page);
  return 0;
}

}  // namespace

int doctor_command(const Flags& f) {
  if (f.self_test) return self_test(f);
  if (f.args.size() > 1) bad_input("name one config, run or trace: `plumb doctor runs/…`");
  const std::string what = f.args.empty() ? "" : f.args.front();
  std::error_code ignored;
  const bool ours = fs::is_directory(what, ignored) && fs::exists(fs::path(what) / "config.toml", ignored);
  const bool is_config = what.empty() || what.ends_with(".toml");
  if (!is_config && !f.set.empty()) bad_input("--set changes a config; {} is a record of what was", what);
  if (f.confirm && !is_config && !ours)
    bad_input("--confirm trains, and {} has no config of plumb to train with", what);
  const Config config = is_config ? config_of(what, f.set)
                        : ours    ? read_checkpoint_info(newest_checkpoint(what)).config
                                  : Config{};
  const Trace t = is_config ? looked_into(config, f) : ours ? of_run(what, config, f) : open_trace(what);
  if (!t.warning.empty() && !f.quiet) say("note: {}: {}\n", what, t.warning);
  const auto causes = doctor_table();
  Diagnosis d = diagnose(t, causes);
  if (f.confirm) confirm_first(d, config, f);
  if (f.json)
    fmt::print("{}\n", diagnosis_json(d, causes).dump());
  else
    fmt::print("{}", diagnosis_text(d, causes, static_cast<int>(terminal_width())));
  return d.verdict == "healthy" ? 0 : d.verdict == "sick" ? 3 : 5;
}

}  // namespace plumb::cli
