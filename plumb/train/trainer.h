// The training loop: batches, steps, validation, the run folder.
#pragma once
#include <filesystem>
#include <functional>

#include "plumb/config/config.h"
#include "plumb/data/baselines.h"
#include "plumb/data/text_corpus.h"
#include "plumb/model/components.h"
#include "plumb/plan/plan.h"
#include "plumb/trace/trace.h"

namespace plumb {

/// One training step, as it was measured: before its update.
struct StepReport {
  std::int64_t step = 0, steps = 0;
  double loss = 0, grad_norm = 0, lr = 0;
  double tokens_per_s = 0;           // over the steps so far, validation left out
  double seconds_left = 0;           // of training and validation
  std::optional<double> val_loss;    // when this step was validated
};

/// What is known before the first step.
struct RunStart {
  std::string run;
  DecoderSpec spec;
  std::int64_t n_params = 0, n_characters = 0, vocab_size = 0, train_tokens = 0, val_tokens = 0;
  double coverage = 0;               // share of the corpus that has a symbol of its own
  Baselines baselines{};
  std::vector<Plan<float>::Part> memory;
  std::size_t bytes = 0;
  std::int64_t shards = 0, sequences_a_shard = 0;
  int threads = 0;
  std::string target;
  std::vector<std::string> remarks;  // "the corpus has 61 symbols, vocab_size asked for 1200"
};

/// How the caller takes part. The library never prints.
struct TrainEvents {
  std::function<void(const RunStart&)> start;
  std::function<void(const StepReport&)> step;
  std::function<void(StepRow&)> probe;       // adds what the hooks measured to a trace row
  std::function<bool()> interrupted;         // asked before each step: true writes a checkpoint and stops
};

struct TrainResult {
  std::string run;
  std::int64_t steps = 0;                    // updates applied
  double initial_loss = 0, train_loss = 0;   // train_loss: mean of the last 50 steps
  double val_loss = 0;                       // over the whole validation split
  Baselines baselines{};
  std::string params_hash;
  double tokens_per_s = 0;
  std::string status;                        // done | non_finite | interrupted
  std::string reason;                        // non_finite: the first bad tensor, and where
};

/// Trains as `config` says on `corpus`, and writes the run folder `out`: config.toml, trace.jsonl, checkpoints and
/// manifest.json. `hooks` see every `probe.every`-th step. A non-finite loss or gradient stops the run before parameters
/// are touched. Throws Error; on bad input nothing has been written.
TrainResult train(const Config& config, const Components&, const Corpus&, const std::filesystem::path& out,
                  const std::function<std::vector<Hook<float>*>(const DecoderSpec&)>& hooks, const TrainEvents&);

}  // namespace plumb
