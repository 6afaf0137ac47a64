// plumb train: progress for people, JSON for programs.
#include "plumb/train/trainer.h"

#include <fmt/chrono.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <ctime>

#include "plumb/base/error.h"
#include "plumb/base/json.h"
#include "plumb/cli/flags.h"
#include "plumb/cli/interrupt.h"
#include "plumb/model/decoder.h"
#include "plumb/probe/probe.h"
#include "plumb/spec/from_config.h"

namespace plumb::cli {
namespace {

std::string new_run_folder() {
  const std::string id = fmt::format("runs/{:%Y%m%d-%H%M%S}", fmt::localtime(std::time(nullptr)));
  std::string name = id;
  for (int n = 2; std::filesystem::exists(name); ++n) name = fmt::format("{}-{}", id, n);
  return name;
}

std::string duration(double s) {
  const auto n = static_cast<long>(std::lround(s));
  return n < 60 ? fmt::format("{} s", n) : fmt::format("{} min {:02} s", n / 60, n % 60);
}

void print_start(const RunStart& s) {
  const DecoderSpec& m = s.spec;
  fmt::print(stderr, "{} layers, d_model {}, {} heads, d_ff {}, block {}: {:L} parameters; norm {}, placement {}, residual {}\n",
             m.n_layer, m.d_model, m.n_head, m.d_ff, m.block_size, s.n_params, m.norm, m.placement, m.residual);
  fmt::print(stderr, "{} characters, {} symbols cover {:.2f} %; {} tokens to train on, {} to validate\n", s.n_characters,
             s.vocab_size, 100 * s.coverage, s.train_tokens, s.val_tokens);
  fmt::print(stderr, "baselines on the validation split, nats: uniform {:.3f}, unigram {:.3f}\n", s.baselines.uniform,
             s.baselines.unigram);
  fmt::print(stderr, "{} threads, {} shards of {} sequences, {}, {:.0f} MB\n", s.threads, s.shards, s.sequences_a_shard,
             s.target, static_cast<double>(s.bytes) / 1e6);
  for (const std::string& r : s.remarks) fmt::print(stderr, "note: {}\n", r);
  fmt::print(stderr, "run folder: {}\n", s.run);
}

/// One line that stays where it is on a terminal; a line now and then elsewhere.
class ProgressLine {
 public:
  void show(const StepReport& r) {
    const bool last = r.step + 1 == r.steps;
    const auto now = std::chrono::steady_clock::now();
    if (tty_ ? now - shown_ < std::chrono::milliseconds(100) && !r.val_loss && !last
             : r.step % 50 != 0 && !r.val_loss && !last)
      return;
    shown_ = now;
    std::string line = fmt::format("step {:>5}/{}  loss {:.4f}  grad {:.2e}  lr {:.2e}  {:.0f} tokens/s  {} left", r.step,
                                   r.steps, r.loss, r.grad_norm, r.lr, r.tokens_per_s, duration(r.seconds_left));
    if (r.val_loss) line += fmt::format("  validation {:.4f}", *r.val_loss);
    fmt::print(stderr, "{}{}{}", tty_ ? "\r\033[K" : "", line, tty_ && !r.val_loss && !last ? "" : "\n");
    std::fflush(stderr);
  }

 private:
  bool tty_ = isatty(STDERR_FILENO) != 0;
  std::chrono::steady_clock::time_point shown_{};
};

Json answer(const TrainResult& r) {
  Json j = Json::object();
  j["run"] = r.run;
  j["steps"] = r.steps;
  const bool any = r.steps > 0, done = r.status == "done";
  j["initial_loss"] = any ? Json(r.initial_loss) : Json();
  j["train_loss"] = any ? Json(r.train_loss) : Json();
  j["val_loss"] = done ? Json(r.val_loss) : Json();
  Json b = Json::object();
  b["uniform"] = r.baselines.uniform;
  b["unigram"] = r.baselines.unigram;
  j["baselines"] = b;
  j["floor"] = nullptr;
  j["params_hash"] = r.params_hash;
  j["tokens_per_s"] = r.tokens_per_s;
  j["status"] = r.status;
  return j;
}

}  // namespace

int train_command(const Flags& f) {
  const Config config = config_of(f);
  const std::string out = f.out.empty() ? new_run_folder() : f.out;
  // Before a corpus is fetched: the vocabulary is only known after it, but every name and combination is.
  check_spec(spec_from_config(config, config.data.vocab_size), Components{});
  const Corpus corpus = open_corpus(config.data.corpus, f.quiet);

  std::vector<std::unique_ptr<Probe>> probes;
  auto make_probes = [&](const DecoderSpec& s) {
    std::vector<Hook<float>*> hooks;
    if (!f.no_probes)
      for (const ProbeEntry& e : probe_table()) hooks.push_back(probes.emplace_back(e.make(s)).get());
    return hooks;
  };
  ProgressLine line;
  TrainEvents events;
  if (!f.quiet) {
    events.start = print_start;
    events.step = [&](const StepReport& r) { line.show(r); };
  }
  events.probe = [&](StepRow& row) {
    for (const auto& p : probes) p->write(row);
  };
  events.interrupted = interrupted;
  listen_for_interrupts();

  const TrainResult r = train(config, Components{}, corpus, out, make_probes, events);
  if (f.json) fmt::print("{}\n", answer(r).dump());
  if (!f.quiet || r.status != "done") {
    if (r.status == "done")
      fmt::print(stderr, "done: validation {:.4f} (unigram {:.4f}), {:.0f} tokens/s; {}\n", r.val_loss,
                 r.baselines.unigram, r.tokens_per_s, r.run);
    if (r.status == "interrupted")
      fmt::print(stderr, "\ninterrupted after {} steps; the checkpoint is in {}\n", r.steps, r.run);
    if (r.status == "non_finite")
      fmt::print(stderr, "plumb: stopped at step {}, before its update: {}; {}, or look at {}/trace.jsonl\n", r.steps, r.reason,
                 r.steps == 0 ? "check init.std and model.norm_eps" : "lower train.lr, lengthen train.warmup", r.run);
  }
  return r.status == "done" ? 0 : r.status == "interrupted" ? 130 : 4;
}

}  // namespace plumb::cli
