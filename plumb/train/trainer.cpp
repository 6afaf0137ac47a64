#include "plumb/train/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <deque>
#include <memory>

#include "plumb/base/error.h"
#include "plumb/base/files.h"
#include "plumb/data/batches.h"
#include "plumb/data/tokenizer.h"
#include "plumb/kernel/peak.h"
#include "plumb/model/decoder.h"
#include "plumb/optim/adamw.h"
#include "plumb/optim/schedule.h"
#include "plumb/spec/from_config.h"
#include "plumb/trace/writer.h"
#include "plumb/train/checkpoint.h"
#include "plumb/train/manifest.h"
#include "plumb/version.h"

namespace plumb {
namespace fs = std::filesystem;
namespace {

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

constexpr std::size_t loss_window = 50;

/// Everything a run holds, in the order in which it is made.
class Trainer {
 public:
  Trainer(const Config& config, const Components& components, const Corpus& corpus, const fs::path& out,
          const std::function<std::vector<Hook<float>*>(const DecoderSpec&)>& hooks, const TrainEvents& events)
      : config_(resolve_config(config)),
        t_(config_.train),
        corpus_(corpus),
        out_(out),
        events_(events),
        tokenizer_(corpus.text, config_.data.vocab_size),
        spec_(spec_from_config(config_, tokenizer_.vocab_size())),
        tokens_(tokenizer_.encode(corpus.text)),
        split_(split_tokens(tokens_, config_.data.split, spec_.block_size)),
        windows_(split_.train, spec_.block_size, static_cast<std::uint64_t>(t_.seed)),
        blocks_(split_.validation, spec_.block_size, static_cast<std::int32_t>(spec_.ignore_index)),
        pool_(static_cast<int>(t_.threads)),
        store_(decoder_layout<float>(spec_, components), static_cast<std::uint64_t>(t_.seed)),
        optimizer_(store_.layout(), {t_.beta1, t_.beta2, t_.adam_eps, t_.weight_decay, t_.grad_clip}),
        hooks_(hooks(spec_)),
        plan_(make_plan<float>(spec_, components, store_, options(Mode::train, t_.batch_size * t_.accumulate), pool_,
                               hooks_)),
        eval_batch_(std::min<std::int64_t>(blocks_.size(), std::max<std::int64_t>(1, 4096 / spec_.block_size))),
        eval_(make_plan<float>(spec_, components, store_, options(Mode::eval, eval_batch_), pool_)),
        baselines_(plumb::baselines(split_.train, split_.validation, tokenizer_.vocab_size())) {
    x_.resize(static_cast<std::size_t>(t_.batch_size * t_.accumulate * spec_.block_size));
    y_.resize(x_.size());
    eval_x_.resize(static_cast<std::size_t>(eval_batch_ * spec_.block_size));
    eval_y_.resize(eval_x_.size());
  }

  TrainResult run() {
    refuse_used_folder();
    if (events_.start) events_.start(start());
    make_dirs(out_);
    claim_folder();
    write_file_atomic(out_ / "config.toml", dump_toml(config_, false));
    auto trace = TraceWriter::create(out_ / "trace.jsonl", {std::string("plumb ") + std::string(kVersion), config_to_json(config_)});
    write_facts(trace);

    TrainResult r;
    r.run = out_.string();
    r.baselines = baselines_;
    r.status = "done";
    for (step_ = 0; step_ < t_.steps; ++step_) {
      if (events_.interrupted && events_.interrupted()) {
        r.status = "interrupted";
        break;
      }
      if (!one_step(trace, r)) break;
    }
    r.steps = step_;
    save();  // of a run that stopped on a non-finite value too: its parameters are from before that step
    if (r.status == "done" && !validated_) r.val_loss = validate();
    if (r.status == "done" && !std::isfinite(r.val_loss)) {
      const auto bad = eval_.first_non_finite(eval_x_, eval_y_, {step_, 0});
      r.status = "non_finite";
      r.reason = "the validation loss after the last update is " + fmt::format("{}", r.val_loss) +
                 (bad ? "; the first tensor that is not finite is " + bad->tensor : std::string());
      trace.fact({"non_finite", r.reason});
    }
    for (double l : last_) r.train_loss += l / static_cast<double>(last_.size());
    r.tokens_per_s = tokens_per_s();
    r.params_hash = store_.hash();
    write_manifest();
    return r;
  }

 private:
  void refuse_used_folder() const {
    std::error_code error;
    const fs::file_status status = fs::symlink_status(out_, error);
    if (status.type() == fs::file_type::not_found) return;
    if (error) bad_input("{} cannot be a run folder: {}; name another with --out", out_.string(), error.message());
    if (!fs::is_directory(out_, error))
      bad_input("{} is not a folder; name a folder for the run with --out", out_.string());
    for (fs::directory_iterator it(out_, error), end; !error && it != end; it.increment(error)) {
      const std::string name = it->path().filename().string();
      if (name == "trace.jsonl" || name.starts_with("checkpoint-"))
        bad_input("{} already holds a run; name another folder with --out", out_.string());
    }
  }

  // Of two runs that start in one folder at the same moment only one may go on.
  void claim_folder() const {
    std::FILE* f = std::fopen((out_ / "trace.jsonl").c_str(), "wx");
    if (!f) bad_input("{} already holds a run, or cannot be written; name another folder with --out", out_.string());
    std::fclose(f);
  }

  PlanOptions options(Mode mode, std::int64_t batch) const {
    return {.mode = mode,
            .batch = batch,
            .block = spec_.block_size,
            .recompute = static_cast<int>(t_.recompute)};
  }

  RunStart start() const {
    RunStart s;
    s.run = out_.string();
    s.spec = spec_;
    s.n_params = store_.layout().count();
    s.n_characters = static_cast<std::int64_t>(corpus_.text.size());
    s.vocab_size = tokenizer_.vocab_size();
    s.train_tokens = static_cast<std::int64_t>(split_.train.size());
    s.val_tokens = static_cast<std::int64_t>(split_.validation.size());
    s.coverage = tokenizer_.coverage(corpus_.text);
    s.baselines = baselines_;
    s.memory = plan_.memory();
    for (auto& part : eval_.memory()) s.memory.push_back({"validation: " + part.what, part.bytes});
    s.memory.push_back({"parameters and state", store_.bytes()});
    s.memory.push_back({"optimiser", optimizer_.bytes()});
    for (const auto& part : s.memory) s.bytes += part.bytes;
    s.shards = plan_.schedule().n_shard;
    s.sequences_a_shard = plan_.schedule().sequences;
    s.threads = pool_.size();
    s.target = simd_target();
    if (s.vocab_size < config_.data.vocab_size)
      s.remarks.push_back(fmt::format("the corpus has {} symbols (one is for the unknown), fewer than vocab_size = {}",
                                      s.vocab_size, config_.data.vocab_size));
    if (plan_.graph().cross_batch())
      s.remarks.push_back("an op works across the batch: one shard, its ops shared by the threads");
    if (plan_.graph().sees_future())
      s.remarks.push_back("the norm pools over positions: each position sees the future while training");
    return s;
  }

  void write_facts(TraceWriter& trace) const {
    trace.fact({"tied", spec_.tied_embeddings});
    trace.fact({"causal", !plan_.graph().sees_future()});
    trace.fact({"n_layer", spec_.n_layer});
    trace.fact({"norm", spec_.norm});
    trace.fact({"placement", spec_.placement});
    trace.fact({"final_norm", spec_.final_norm});
    trace.fact({"residual", spec_.residual});
    trace.fact({"baseline_uniform", baselines_.uniform});
    trace.fact({"baseline_unigram", baselines_.unigram});
  }

  // False: the run ends here.
  bool one_step(TraceWriter& trace, TrainResult& r) {
    const bool probed = !hooks_.empty() && config_.probe.every > 0 && step_ % config_.probe.every == 0;
    plan_.observe(probed);
    windows_.fill(step_, 0, x_, y_);
    const double t0 = now_s();
    const LossResult loss = plan_.loss_and_grad(x_, y_, {step_, step_ * t_.batch_size * t_.accumulate});
    const double norm = plan_.grad_norm();
    if (!std::isfinite(loss.loss) || !std::isfinite(norm)) {
      stop_non_finite(loss, norm, trace, r);
      return false;
    }
    const double lr = learning_rate({t_.schedule, t_.lr, t_.min_lr, t_.warmup, t_.steps}, step_);
    optimizer_.update(store_, std::span<const float>(plan_.grads()), norm, lr, pool_);
    plan_.commit();
    trained_s_ += now_s() - t0;
    ++trained_steps_;

    if (step_ == 0) r.initial_loss = loss.loss;
    last_.push_back(loss.loss);
    if (last_.size() > loss_window) last_.pop_front();
    StepRow row;
    row.step = step_;
    row.values = {{"loss", loss.loss}, {"lr", lr}, {"grad_norm", norm},
                  {"tokens", static_cast<double>(step_) * static_cast<double>(x_.size())}};
    if (loss.loss != loss.cross_entropy) row.values.emplace_back("cross_entropy", loss.cross_entropy);
    if (probed && events_.probe) events_.probe(row);
    trace.step(row);
    finish_step(loss.loss, norm, lr, trace, r);
    return true;
  }

  // After the update: validation and checkpoint when they are due, then the report.
  void finish_step(double loss, double norm, double lr, TraceWriter& trace, TrainResult& r) {
    StepReport report{step_, t_.steps, loss, norm, lr, tokens_per_s(), 0, {}};
    const std::int64_t done = step_ + 1;
    validated_ = done == t_.steps || (t_.eval_every > 0 && done % t_.eval_every == 0);
    if (validated_) {
      const double t0 = now_s();
      r.val_loss = validate();
      eval_s_ = now_s() - t0;
      report.val_loss = r.val_loss;
      StepRow row;
      row.step = done;
      row.values = {{"val_loss", r.val_loss}};
      trace.step(row);
    }
    if (t_.checkpoint_every > 0 && done % t_.checkpoint_every == 0 && done < t_.steps) save(done);
    const double left = static_cast<double>(t_.steps - done);
    report.seconds_left = left * trained_s_ / static_cast<double>(trained_steps_) +
                          (t_.eval_every > 0 ? left / static_cast<double>(t_.eval_every) * eval_s_ : 0);
    if (events_.step) events_.step(report);
  }

  void stop_non_finite(const LossResult& loss, double norm, TraceWriter& trace, TrainResult& r) {
    const auto bad = plan_.first_non_finite(x_, y_, {step_, step_ * t_.batch_size * t_.accumulate});
    r.status = "non_finite";
    r.reason = bad ? fmt::format("the first tensor that is not finite is {} (element {} is {}{})", bad->tensor,
                                 bad->element, bad->value,
                                 bad->shard >= 0 ? fmt::format(", shard {}", bad->shard) : std::string())
                   : std::string("every tensor of a replay is finite; the sum of gradients overflowed");
    StepRow row;
    row.step = step_;
    row.values = {{"loss", loss.loss}, {"grad_norm", norm}};
    trace.step(row);
    trace.fact({"non_finite", r.reason});
  }

  double validate() {
    double sum = 0;
    for (std::int64_t at = 0; at < blocks_.size(); at += eval_batch_) {
      blocks_.fill(at, eval_x_, eval_y_);
      const LossResult l = eval_.loss(eval_x_, eval_y_, {step_, at});
      sum += l.cross_entropy * static_cast<double>(l.tokens);
    }
    return sum / static_cast<double>(blocks_.targets());
  }

  double tokens_per_s() const {
    return trained_s_ > 0 ? static_cast<double>(trained_steps_) * static_cast<double>(x_.size()) / trained_s_ : 0;
  }

  void save() { save(step_); }
  void save(std::int64_t step) {
    save_checkpoint(out_ / checkpoint_name(step), {config_, spec_, tokenizer_.to_json(), step, simd_target()}, store_,
                    optimizer_);
    prune_checkpoints(out_, t_.keep_checkpoints);
  }

  void write_manifest() const {
    Json m = manifest(config_, corpus_, store_.hash());
    Json products = Json::array();
    for (const auto& [shape, impl] : plan_.products()) products.push_back(shape.text() + ": " + impl);
    m["products"] = products;
    write_file_atomic(out_ / "manifest.json", m.dump(2) + "\n");
  }

  Config config_;
  const TrainConfig& t_;
  const Corpus& corpus_;
  fs::path out_;
  const TrainEvents& events_;
  CharTokenizer tokenizer_;
  DecoderSpec spec_;
  std::vector<std::int32_t> tokens_;
  Split split_;
  Windows windows_;
  Blocks blocks_;
  ThreadPool pool_;
  ParamStore<float> store_;
  AdamW<float> optimizer_;
  std::vector<Hook<float>*> hooks_;
  Plan<float> plan_;
  std::int64_t eval_batch_;
  Plan<float> eval_;
  Baselines baselines_;
  std::vector<std::int32_t> x_, y_, eval_x_, eval_y_;
  std::deque<double> last_;
  std::int64_t step_ = 0, trained_steps_ = 0;
  double trained_s_ = 0, eval_s_ = 0;
  bool validated_ = false;
};

}  // namespace

TrainResult train(const Config& config, const Components& components, const Corpus& corpus, const fs::path& out,
                  const std::function<std::vector<Hook<float>*>(const DecoderSpec&)>& hooks,
                  const TrainEvents& events) {
  return Trainer(config, components, corpus, out, hooks, events).run();
}

}  // namespace plumb
