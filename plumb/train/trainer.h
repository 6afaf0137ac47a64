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
  double loss = 0, grad_norm = 0, lr = 0;  // loss: the cross-entropy alone, here and in TrainResult
  double tokens_per_s = 0;                 // over the steps so far, validation left out
  double seconds_left = 0;                 // of training and validation
  std::optional<double> val_loss;          // when this step was validated
};

/// What is known before the first step.
struct RunStart {
  std::string run;
  DecoderSpec spec;
  std::int64_t first_step = 0;   // > 0: a run that goes on
  std::int64_t probe_every = 0;  // 0: nothing is measured
  std::int64_t n_params = 0, n_characters = 0, vocab_size = 0, train_tokens = 0, val_tokens = 0;
  double coverage = 0;  // share of the corpus that has a symbol of its own
  Baselines baselines{};
  std::optional<double> floor;  // exact, of a generated corpus
  std::vector<Plan<float>::Part> memory;
  std::size_t bytes = 0;
  std::int64_t shards = 0, sequences_a_shard = 0;
  int threads = 0;
  std::string target;
  std::vector<std::string> remarks;  // "the corpus has 61 symbols, vocab_size asked for 1200"
};

/// What measures a run while it trains. plumb/probe/ has the ones there are.
struct Observers {
  std::vector<Hook<float>*> hooks;  // of the training plan, at every `probe.every`-th step
  /// Told before a probed step whether the costly measurements are due too (`probe.all_every`).
  std::function<void(bool all)> choose;
  /// Told the parameters before and after the update of a probed step, and the gradients; empty: nobody asks.
  std::function<void(const ParamLayout&, std::span<const float> before, std::span<const float> after,
                     std::span<const float> grads)>
      updated;
  std::function<void(StepRow&)> write;  // adds what was measured to a trace row
  /// What they must know of earlier steps goes into checkpoints, so that a resumed run's trace is the same; may
  /// be empty.
  std::function<std::string()> memory;
  std::function<void(const std::string&)> recall;
};

/// How the caller takes part. The library never prints.
struct TrainEvents {
  std::function<Observers(const DecoderSpec&)> observe;  // empty: nothing is probed
  std::function<void(const RunStart&)> start;
  std::function<void(const StepReport&)> step;
  std::function<void(const StepRow&)> probed;  // the row of a probed step
  std::function<void(const StepRow&)> row;     // every row, once the trace has it
  std::function<bool()> interrupted;           // asked before each step: true writes a checkpoint and stops
};

struct TrainResult {
  std::string run;
  std::vector<std::string> faults;          // injected on purpose, [fault]
  std::int64_t steps = 0;                   // updates applied
  double initial_loss = 0, train_loss = 0;  // train_loss: RecentLoss
  double val_loss = 0;                      // over the whole validation split
  Baselines baselines{};
  std::optional<double> floor;
  std::string params_hash;
  double tokens_per_s = 0;
  std::string status;  // done | non_finite | interrupted
  std::string reason;  // non_finite: the first bad tensor, and where
};

/// What to train, and where its folder is.
struct TrainJob {
  Config config;
  std::filesystem::path out;
  bool new_folder =
      false;  // `out` is a wish: where it exists already, the run takes another name (make_new_folder)
  std::filesystem::path from =
      {};  // a run or checkpoint whose weights (and tokenizer) start this one; may be empty
  std::filesystem::path checkpoint = {};  // set by resume_job: the run in `out` goes on from it
  std::vector<std::string> remarks = {};  // for RunStart: what resume_job tolerated, say
  int threads =
      0;  // > 0: instead of the config's, which is written down as it is (several runs share a machine)
};

/// Is `key` a setting that cannot change a bit of a run's results, such as train.threads?
bool changes_no_bit(std::string_view key);

/// A job that continues the run in folder `run` from its newest whole checkpoint. `set` may change only what
/// cannot change a bit of the result.
/// bad_input for anything else, for a folder without a checkpoint, and when its config.toml is no longer the
/// checkpoint's.
TrainJob resume_job(const std::filesystem::path& run, const std::vector<std::string>& set);

/// Trains on `corpus`, and writes the run folder: config.toml, trace.jsonl, checkpoints and manifest.json. A
/// non-finite loss or gradient stops the run before parameters are touched. The same bits whether a run was
/// interrupted, killed and resumed, or not. Throws Error; on bad input nothing has been written.
TrainResult train(const TrainJob&, const Components&, const Corpus&, const TrainEvents&);

}  // namespace plumb
