// plumb train, plumb resume: progress for people, JSON for programs.
#include "plumb/train/trainer.h"

#include <fmt/chrono.h>

#include <ctime>
#include <map>
#include <thread>

#include "plumb/base/error.h"
#include "plumb/base/files.h"
#include "plumb/base/json.h"
#include "plumb/base/text.h"
#include "plumb/cli/flags.h"
#include "plumb/cli/interrupt.h"
#include "plumb/cli/live.h"
#include "plumb/cli/say.h"
#include "plumb/doctor/doctor.h"
#include "plumb/model/decoder.h"
#include "plumb/report/watch.h"
#include "plumb/spec/from_config.h"
#include "plumb/study/observe.h"
#include "plumb/trace/reader.h"
#include "plumb/train/run_folder.h"

namespace plumb::cli {
namespace {
namespace fs = std::filesystem;

std::string new_run_folder() {
  const std::string id = fmt::format("runs/{:%Y%m%d-%H%M%S}", fmt::localtime(std::time(nullptr)));
  std::string name = id;
  for (int n = 2; fs::exists(name); ++n) name = fmt::format("{}-{}", id, n);
  return name;
}

Json answer(const TrainResult& r) {
  Json j = Json::object();
  j["run"] = r.run;
  if (!r.faults.empty()) j["faults"] = Json(r.faults);
  j["steps"] = r.steps;
  const bool any = r.steps > 0, done = r.status == "done";
  j["initial_loss"] = any ? Json(r.initial_loss) : Json();
  j["train_loss"] = any ? Json(r.train_loss) : Json();
  j["val_loss"] = done ? Json(r.val_loss) : Json();
  j["baselines"] = baselines_json(r.baselines);
  j["floor"] = r.floor ? Json(*r.floor) : Json();
  j["params_hash"] = r.params_hash;
  j["tokens_per_s"] = r.tokens_per_s;
  j["status"] = r.status;
  return j;
}

void print_end(const TrainResult& r, const std::string& name, bool quiet) {
  const std::string who =
      (name.empty() ? "" : name + ": ") + (r.faults.empty() ? "" : "[FAULT: " + join(r.faults) + "] ");
  if (r.status == "done" && !quiet && r.tokens_per_s == 0)
    say("{}was finished already, after {} steps: validation {:.4f}; {}\n", who, r.steps, r.val_loss, r.run);
  else if (r.status == "done" && !quiet)
    say("{}done: validation {:.4f} ({}), {:.0f} tokens/s; {}\n", who, r.val_loss,
        baseline_crossed(r.val_loss, r.baselines, r.floor), r.tokens_per_s, r.run);
  if (r.status == "interrupted")
    say("{}interrupted after {} steps; go on with `plumb resume {}`\n", who, r.steps, r.run);
  // A run that goes on keeps its settings, so that what may help is said of a new one.
  if (r.status == "non_finite")
    say("plumb: {}stopped at step {}, before its update: {}; {}: `plumb train {}/config.toml --set {}`, or "
        "look at "
        "{}/trace.jsonl\n",
        who, r.steps, r.reason,
        r.steps == 0 ? "check init.std and model.norm_eps in a new run"
                     : "start a new run with a lower train.lr or a longer train.warmup",
        r.run, r.steps == 0 ? "init.std=…" : "train.lr=…", r.run);
}

// What the trace alone says of a run that ended; `plumb doctor RUN` looks into its model too.
void print_opinion(const std::string& name, const std::string& run) {
  const Trace trace = read_trace(fs::path(run) / "trace.jsonl");
  const Diagnosis d = diagnose(trace, doctor_table());
  const std::string who = name.empty() ? "" : name + ": ";
  if (!d.findings.empty())
    say("{}doctor: {}: {} `plumb doctor {}` looks closer\n", who, d.findings.front().cause,
        d.findings.front().why, run);
  else if (d.verdict == "undecided" && course_of(Evidence(trace)).known)
    say("{}doctor: {}; `plumb doctor {}` looks into the model\n", who, d.because, run);
}

// What to do with the runs that are done.
void print_next(const std::vector<std::string>& done) {
  if (done.empty()) return;
  const std::string& run = done.front();
  say("next: `plumb profile {}` (layer by layer), `plumb sample {}` (text), `plumb eval {}` (by position), "
      "`plumb compare {} {}`\n",
      run, run, run, run, done.size() > 1 ? join(std::span(done).subspan(1), " ") : "OTHER-RUN");
}

/// A run of this command, and how it ended.
struct Run {
  std::string name;  // empty when it is the only one
  TrainJob job;
  const Corpus* corpus = nullptr;
  std::string folder;  // once it has one
  TrainResult result;
  std::exception_ptr error;
};

Json answer(const Run& r) {
  if (!r.error) return answer(r.result);
  Json j = Json::object();
  j["run"] = r.job.out.string();
  j["status"] = "failed";
  j["error"] = sentence_of(r.error).text;
  return j;
}

// What the doctor finds while the run goes on. It must not end for a trace that somebody took away.
void tell_findings(const Run& run, std::size_t i, const StepRow& row, std::optional<Watch>& watch,
                   Live& live) {
  if (!watch) return;
  try {
    for (const Finding& f : watch->add(row))
      live.note(i, fmt::format("doctor, step {}: {}: {} `plumb doctor {}` looks closer", row.step, f.cause,
                               f.why, run.folder));
  } catch (const Error&) {
    watch.reset();
  }
}

void train_one(Run& run, std::size_t i, const Flags& f, Live& live) {
  std::optional<ProbeSet> probes;
  std::optional<Watch> watch;
  watch.emplace([&] { return read_trace(fs::path(run.folder) / "trace.jsonl"); }, run.job.config.probe.every);
  TrainEvents events;
  if (!f.no_probes)
    events.observe = [&](const DecoderSpec& s) {
      probes.emplace(s);
      return observers_of(*probes);
    };
  if (!f.quiet) {
    events.start = [&](const RunStart& s) {
      live.start(i, s);
      run.folder = s.run;
    };
    events.step = [&](const StepReport& r) { live.step(i, r); };
    events.probed = [&](const StepRow& r) { live.probed(i, r); };
    events.row = [&](const StepRow& r) { tell_findings(run, i, r, watch, live); };
  }
  events.interrupted = interrupted;
  try {
    run.result = train(run.job, Components{}, *run.corpus, events);
  } catch (...) {
    run.error = std::current_exception();
    if (!run.name.empty()) live.note(i, sentence_of(run.error).text);
  }
}

/// Several runs share the processor.
void share_threads(std::vector<Run>& runs) {
  if (runs.size() == 1) return;
  for (Run& r : runs) {
    const auto asked = static_cast<std::size_t>(r.job.config.train.threads);
    const std::size_t all = asked ? asked : std::thread::hardware_concurrency();
    r.job.threads = static_cast<int>(std::max<std::size_t>(1, all / runs.size()));
  }
}

int train_all(std::vector<Run>& runs, const Flags& f) {
  std::map<std::string, Corpus> corpora;
  for (Run& r : runs) {
    const std::string& name = r.job.config.data.corpus;
    if (!corpora.contains(name)) corpora.emplace(name, open_corpus(name, f.quiet));
    r.corpus = &corpora.at(name);
  }
  std::vector<std::string> names;
  for (const Run& r : runs) names.push_back(r.name);
  Live live(names);
  share_threads(runs);
  listen_for_interrupts();
  outlive_readers();
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 1; i < runs.size(); ++i)
      threads.emplace_back([&, i] { train_one(runs[i], i, f, live); });
    train_one(runs[0], 0, f, live);
  }
  live.close();

  if (runs.size() == 1 && runs[0].error) std::rethrow_exception(runs[0].error);
  bool interrupted = false, bad = false;
  int failed = 0;
  std::vector<std::string> done;
  Json all = Json::array();
  for (const Run& r : runs) {
    all.push_back(answer(r));
    if (r.error) {
      if (!failed) failed = sentence_of(r.error).exit_code;
      continue;
    }
    interrupted |= r.result.status == "interrupted";
    bad |= r.result.status == "non_finite";
    print_end(r.result, r.name, f.quiet);
    if (r.result.status != "done") continue;
    done.push_back(r.result.run);
    if (!f.quiet) print_opinion(r.name, r.result.run);
  }
  if (!f.quiet) print_next(done);
  if (f.json && runs.size() == 1) fmt::print("{}\n", answer(runs[0]).dump());
  if (f.json && runs.size() > 1) {
    Json j = Json::object();
    j["runs"] = all;
    fmt::print("{}\n", j.dump());
  }
  return failed ? failed : interrupted ? 130 : bad ? 4 : 0;
}

}  // namespace

int train_command(const Flags& f) {
  const std::string out = f.out.empty() ? new_run_folder() : f.out;
  std::vector<Run> runs;
  std::vector<std::string> files = f.args;
  if (files.size() > 1) refuse_used_folder(out);  // their folders would lie inside another run's
  if (files.empty()) files.emplace_back();
  for (const std::string& file : files) {
    Run r;
    r.job.config = config_of(file, f.set);
    r.job.from = f.from;
    r.job.remarks = unused_settings(r.job.config, Components{});
    r.job.out = out;
    r.job.new_folder = f.out.empty() && files.size() == 1;
    if (files.size() > 1) {
      r.name = fs::path(file).stem().string();
      r.job.out = fs::path(out) / r.name;
      for (const Run& other : runs)
        if (other.name == r.name)
          bad_input("two of the configs are called '{}'; rename one, as a run is named after its config",
                    r.name);
    }
    refuse_used_folder(r.job.out);
    // Before a corpus is fetched: the vocabulary is only known after it, but every name and combination is.
    check_spec(spec_of(r.job.config, r.job.config.data.vocab_size, Components{}), Components{});
    runs.push_back(std::move(r));
  }
  return train_all(runs, f);
}

int resume_command(const Flags& f) {
  if (f.args.empty()) bad_input("name the run to go on with: `plumb resume runs/…`; `plumb runs` lists them");
  std::vector<Run> runs;
  for (const std::string& folder : f.args) {
    Run r;
    if (f.args.size() > 1) r.name = folder_name(folder);
    r.job = resume_job(folder, f.set);
    runs.push_back(std::move(r));
  }
  return train_all(runs, f);
}

}  // namespace plumb::cli
