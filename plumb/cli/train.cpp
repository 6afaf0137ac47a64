// plumb train, plumb resume: progress for people, JSON for programs.
#include "plumb/train/trainer.h"

#include <fmt/chrono.h>

#include <ctime>
#include <map>
#include <set>
#include <thread>

#include "plumb/base/error.h"
#include "plumb/base/json.h"
#include "plumb/cli/flags.h"
#include "plumb/cli/interrupt.h"
#include "plumb/cli/live.h"
#include "plumb/model/decoder.h"
#include "plumb/spec/from_config.h"
#include "plumb/study/observe.h"

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
  const std::string who = name.empty() ? "" : name + ": ";
  if (r.status == "done" && !quiet)
    fmt::print(stderr, "{}done: validation {:.4f} ({}), {:.0f} tokens/s; {}\n", who, r.val_loss,
               baseline_crossed(r.val_loss, r.baselines, r.floor), r.tokens_per_s, r.run);
  if (r.status == "interrupted")
    fmt::print(stderr, "{}interrupted after {} steps; go on with `plumb resume {}`\n", who, r.steps, r.run);
  if (r.status == "non_finite")
    fmt::print(stderr, "plumb: {}stopped at step {}, before its update: {}; {}, or look at {}/trace.jsonl\n",
               who, r.steps, r.reason,
               r.steps == 0 ? "check init.std and model.norm_eps" : "lower train.lr, lengthen train.warmup",
               r.run);
}

/// A run of this command, and how it ended.
struct Run {
  std::string name;  // empty when it is the only one
  TrainJob job;
  const Corpus* corpus = nullptr;
  TrainResult result;
  std::exception_ptr error;
};

void train_one(Run& run, std::size_t i, const Flags& f, Live& live) {
  std::optional<ProbeSet> probes;
  TrainEvents events;
  if (!f.no_probes)
    events.observe = [&](const DecoderSpec& s) {
      probes.emplace(s);
      return observers_of(*probes);
    };
  if (!f.quiet) {
    events.start = [&](const RunStart& s) { live.start(i, s); };
    events.step = [&](const StepReport& r) { live.step(i, r); };
    events.probed = [&](const StepRow& r) { live.probed(i, r); };
  }
  events.interrupted = interrupted;
  try {
    run.result = train(run.job, Components{}, *run.corpus, events);
  } catch (...) {
    run.error = std::current_exception();
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
  listen_for_interrupts();
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 1; i < runs.size(); ++i)
      threads.emplace_back([&, i] { train_one(runs[i], i, f, live); });
    train_one(runs[0], 0, f, live);
  }
  live.close();

  bool interrupted = false, bad = false;
  Json all = Json::array();
  for (const Run& r : runs) {
    if (r.error) std::rethrow_exception(r.error);
    interrupted |= r.result.status == "interrupted";
    bad |= r.result.status == "non_finite";
    print_end(r.result, r.name, f.quiet);
    all.push_back(answer(r.result));
  }
  if (f.json && runs.size() == 1) fmt::print("{}\n", answer(runs[0].result).dump());
  if (f.json && runs.size() > 1) {
    Json j = Json::object();
    j["runs"] = all;
    fmt::print("{}\n", j.dump());
  }
  return interrupted ? 130 : bad ? 4 : 0;
}

}  // namespace

int train_command(const Flags& f) {
  const std::string out = f.out.empty() ? new_run_folder() : f.out;
  std::vector<Run> runs;
  std::vector<std::string> files = f.args;
  if (files.empty()) files.emplace_back();
  for (const std::string& file : files) {
    Run r;
    r.job.config = config_of(file, f.set);
    r.job.from = f.from;
    r.job.out = out;
    if (files.size() > 1) {
      r.name = fs::path(file).stem().string();
      r.job.out = fs::path(out) / r.name;
      for (const Run& other : runs)
        if (other.name == r.name)
          bad_input("two of the configs are called '{}'; rename one, as a run is named after its config",
                    r.name);
      // Several runs share the processor.
      TrainConfig& t = r.job.config.train;
      const auto all = t.threads ? t.threads : static_cast<std::int64_t>(std::thread::hardware_concurrency());
      t.threads = std::max<std::int64_t>(1, all / static_cast<std::int64_t>(files.size()));
    }
    // Before a corpus is fetched: the vocabulary is only known after it, but every name and combination is.
    check_spec(spec_from_config(r.job.config, r.job.config.data.vocab_size), Components{});
    runs.push_back(std::move(r));
  }
  return train_all(runs, f);
}

int resume_command(const Flags& f) {
  if (f.args.empty()) bad_input("name the run to go on with: `plumb resume runs/…`; `plumb runs` lists them");
  std::vector<Run> runs;
  for (const std::string& folder : f.args) {
    Run r;
    if (f.args.size() > 1) r.name = fs::path(folder).filename().string();
    r.job = resume_job(folder, f.set);
    runs.push_back(std::move(r));
  }
  return train_all(runs, f);
}

}  // namespace plumb::cli
