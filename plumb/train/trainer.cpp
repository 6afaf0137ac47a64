#include "plumb/train/trainer.h"

#include <algorithm>
#include <cmath>

#include "plumb/base/clock.h"
#include "plumb/base/error.h"
#include "plumb/base/files.h"
#include "plumb/base/lock.h"
#include "plumb/base/text.h"
#include "plumb/base/wrap.h"
#include "plumb/kernel/peak.h"
#include "plumb/model/decoder.h"
#include "plumb/spec/from_config.h"
#include "plumb/tensor/rounding.h"
#include "plumb/trace/reader.h"
#include "plumb/trace/recent_loss.h"
#include "plumb/trace/writer.h"
#include "plumb/train/checkpoint.h"
#include "plumb/train/feed.h"
#include "plumb/train/manifest.h"
#include "plumb/train/optimizer.h"
#include "plumb/train/run_folder.h"
#include "plumb/train/validation.h"
#include "plumb/version.h"

namespace plumb {
namespace fs = std::filesystem;
namespace {

bool is_whole(const fs::path& checkpoint) {
  try {
    read_checkpoint_info(checkpoint);
    return true;
  } catch (const Error&) {
    return false;
  }
}

std::optional<CharTokenizer> tokenizer_of(const fs::path& source) {
  if (source.empty()) return {};
  return CharTokenizer::from_json(read_checkpoint_info(source).tokenizer, source.string());
}

/// Everything a run holds, in the order in which it is made.
class Trainer {
 public:
  Trainer(const TrainJob& job, const Components& components, const Corpus& corpus, const TrainEvents& events)
      : config_(resolve_config(job.config)),
        sick_(with_faults(config_, components.fault)),
        faults_(run_faults(config_, components.fault)),
        t_(sick_.train),
        out_(job.out),
        new_folder_(job.new_folder),
        events_(events),
        resumed_(job.checkpoint),
        from_(job.from.empty() ? fs::path() : newest_checkpoint(job.from)),
        remarks_(job.remarks),
        spec_(spec_of(config_, 1, components)),
        feed_(config_.data, corpus, spec_.block_size, static_cast<std::int32_t>(spec_.ignore_index),
              static_cast<std::uint64_t>(t_.seed), tokenizer_of(resumed_.empty() ? from_ : resumed_),
              faults_),
        pool_(job.threads > 0 ? job.threads : static_cast<int>(t_.threads)),
        store_(decoder_layout<float>(with_vocabulary(), components), static_cast<std::uint64_t>(t_.seed)),
        optimizer_(make_optimizer<float>(t_, components, store_.layout(), pool_.size())),
        observers_(events.observe ? events.observe(spec_) : Observers{}),
        plan_(make_plan<float>(spec_, components, store_,
                               {.mode = Mode::train,
                                .batch = t_.batch_size * t_.accumulate,
                                .block = spec_.block_size,
                                .recompute = static_cast<int>(t_.recompute),
                                .loss = {t_.label_smoothing, t_.z_loss},
                                .loss_factor = faults_.loss_factor},
                               pool_, observers_.hooks)),
        validation_(spec_, components, store_, feed_, pool_,
                    faults_.evaluate_in_training_mode ? Mode::train : Mode::eval) {
    x_.resize(static_cast<std::size_t>(t_.batch_size * t_.accumulate * spec_.block_size));
    y_.resize(x_.size());
    if (observers_.updated) before_.resize(store_.values().size());
    store_narrowly();
  }

  TrainResult run() {
    std::optional<TraceWriter> trace;
    result_.baselines = feed_.baselines();
    result_.floor = feed_.floor();
    result_.status = "done";
    result_.faults = config_.fault.inject;
    if (resumed_.empty()) {
      if (!from_.empty()) take_weights();
      if (!new_folder_) refuse_used_folder(out_);
      if (new_folder_)
        out_ = make_new_folder(out_);
      else
        make_dirs(out_);
      result_.run = out_.string();
      lock_.emplace(out_);
      // Again, with the lock: of two that start at the same moment only one may go on.
      refuse_used_folder(out_);
      if (events_.start) events_.start(start());
      write_file_atomic(out_ / "config.toml", dump_toml(config_, false));
      trace = TraceWriter::create(out_ / "trace.jsonl",
                                  {std::string("plumb ") + std::string(kVersion), config_to_json(config_)});
      write_facts(*trace);
      save(0);
    } else {
      result_.run = out_.string();
      lock_.emplace(out_);
      continue_from_checkpoint();
      // Damaged ones that were passed over: they would count as the newest, and are written again.
      for (const fs::path& later : checkpoints(out_)) {
        if (later == resumed_) break;
        if (is_whole(later))
          bad_input("{} was written while this resume began; resume again", later.string());
        fs::remove(later);
      }
      if (events_.start) events_.start(start());
      trace = TraceWriter::resume(out_ / "trace.jsonl", step_);
    }
    write_manifest("running");
    train_on(*trace);
    finish(*trace);
    return result_;
  }

 private:
  const DecoderSpec& with_vocabulary() {
    spec_.vocab_size = feed_.tokenizer().vocab_size();
    return spec_;
  }

  void take_weights() {
    const WeightsReport w = load_weights(from_, store_);
    store_narrowly();
    remarks_.push_back(fmt::format("{} parameter tensors are those of {}", w.taken, from_.string()));
    auto list = [&](const std::vector<std::string>& names, const char* what) {
      if (!names.empty())
        remarks_.push_back(fmt::format("{} {}: {}{}", names.size(), what,
                                       join(std::span(names).first(std::min<std::size_t>(4, names.size()))),
                                       names.size() > 4 ? ", …" : ""));
    };
    list(w.missing, "are not in it and start as drawn");
    list(w.unused, "of its tensors have no place here");
    if (spec_.vocab_size != config_.data.vocab_size)
      remarks_.push_back(
          fmt::format("the vocabulary is that of {} too, {} symbols; data.vocab_size = {} is not used",
                      from_.string(), spec_.vocab_size, config_.data.vocab_size));
  }

  // What is kept between steps, as the storage format holds it: parameters, and the optimiser's state.
  void store_narrowly() {
    const Format format = storage_format(precision_of(t_.precision));
    if (format == Format::fp32) return;
    const std::span<float> all = store_.values();
    const auto n = static_cast<std::int64_t>(all.size());
    round_to(format, {all.data(), 1, n, n});
    for (const ParamInfo& p : store_.layout().params)
      for (const OptimState<float>& s : optimizer_->state(p)) round_to(format, s.view);
  }

  // The step counter, tensors, and what earlier rows of the trace say about the losses.
  void continue_from_checkpoint() {
    const CheckpointInfo info = load_checkpoint(resumed_, store_, *optimizer_);
    if (faults_.forget_optimizer) forget_optimizer();
    if (!info.corpus_sha256.empty() && info.corpus_sha256 != feed_.corpus().sha256)
      bad_input(
          "the corpus {} is not the one that {} was trained on (its SHA-256 differs); bring that text back, "
          "or start "
          "a new run with `plumb train --from {}`",
          feed_.corpus().name, out_.string(), out_.string());
    if (info.target != simd_target())
      remarks_.push_back(
          fmt::format("the checkpoint was made with {}, this machine uses {}: the bits may differ from an "
                      "uninterrupted run's",
                      info.target, simd_target()));
    step_ = info.step;
    if (observers_.recall && !info.probes.empty()) observers_.recall(info.probes);
    for (const StepRow& row : read_trace(out_ / "trace.jsonl").steps) {
      if (const double* v = row.find("val_loss"); v && row.step == step_) {
        result_.val_loss = *v;
        validated_ = true;
      }
      const double* loss = row.find("loss");
      if (!loss || row.step >= step_) continue;
      if (row.step == 0) result_.initial_loss = *loss;
      recent_.add(*loss);
    }
  }

  void forget_optimizer() {
    optimizer_->steps(0);
    for (const ParamInfo& p : store_.layout().params)
      for (const OptimState<float>& s : optimizer_->state(p))
        for (std::int64_t i = 0; i < s.view.rows; ++i) std::fill_n(s.view.row(i), s.view.cols, 0.0F);
  }

  void train_on(TraceWriter& trace) {
    for (; step_ < t_.steps; ++step_) {
      if (events_.interrupted && events_.interrupted()) {
        result_.status = "interrupted";
        return;
      }
      if (!one_step(trace)) return;
    }
  }

  void finish(TraceWriter& trace) {
    TrainResult& r = result_;
    r.steps = step_;
    if (saved_ != step_)
      save(step_);  // of a run that stopped on a non-finite value too: its parameters are from before that
                    // step
    if (r.status == "done" && !validated_) r.val_loss = validation_.loss();
    if (r.status == "done" && !std::isfinite(r.val_loss)) {
      r.status = "non_finite";
      r.reason = fmt::format("the validation loss after the last update is {}{}", number_text(r.val_loss),
                             validation_.first_non_finite());
      trace.fact({"non_finite", r.reason});
    }
    r.train_loss = recent_.mean();
    r.tokens_per_s = tokens_per_s();
    r.params_hash = store_.hash();
    write_manifest(r.status);
  }

  RunStart start() const {
    RunStart s;
    s.run = out_.string();
    s.spec = spec_;
    s.first_step = step_;
    s.probe_every = observers_.write ? config_.probe.every : 0;
    s.n_params = store_.layout().count();
    s.n_characters = static_cast<std::int64_t>(feed_.corpus().text.size());
    s.vocab_size = feed_.tokenizer().vocab_size();
    s.train_tokens = feed_.train_tokens();
    s.val_tokens = feed_.val_tokens();
    s.coverage = feed_.coverage();
    s.baselines = feed_.baselines();
    s.floor = feed_.floor();
    s.memory = plan_.memory();
    for (auto& part : validation_.memory()) s.memory.push_back({"validation: " + part.what, part.bytes});
    s.memory.push_back({"parameters and state", store_.bytes()});
    s.memory.push_back({"optimiser", optimizer_->bytes()});
    for (const auto& part : s.memory) s.bytes += part.bytes;
    s.shards = plan_.schedule().n_shard;
    s.sequences_a_shard = plan_.schedule().sequences;
    s.threads = pool_.size();
    s.target = simd_target();
    if (const std::string wrong = faults_text(config_.fault); !wrong.empty())
      s.remarks.push_back("FAULT injected on purpose: " + wrong + "; docs/faults.md says what is wrong");
    s.remarks.insert(s.remarks.end(), remarks_.begin(), remarks_.end());
    for (const std::string& r : feed_.remarks()) s.remarks.push_back(r);
    for (std::size_t i = 0; i < n_role; ++i)
      if (t_.lr_scale.values[i] != 1 && std::ranges::none_of(store_.layout().params, [&](const ParamInfo& p) {
            return static_cast<std::size_t>(p.spec.role) == i;
          }))
        s.remarks.push_back(
            fmt::format("train.lr_scale.{} = {} has no effect: the model has no such parameters",
                        role_names[i], t_.lr_scale.values[i]));
    if (plan_.graph().cross_batch())
      s.remarks.push_back("an op works across the batch: one shard, its ops shared by the threads");
    if (t_.decay == "independent" && t_.weight_decay > 0.01)
      s.remarks.push_back(
          fmt::format("train.decay = \"independent\" with train.weight_decay = {} takes {:.0f} % off every "
                      "matrix at each step; about 1e-4 is usual",
                      t_.weight_decay, 100 * t_.weight_decay));
    if (spec_.flaws.mask_ahead > 0 || spec_.flaws.mask_finite)
      s.remarks.push_back(
          "the attention mask shows the future: each position sees tokens that it is to predict");
    else if (plan_.graph().sees_future())
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
    const Baselines& b = feed_.baselines();
    trace.fact({"baseline_uniform", b.uniform});
    trace.fact({"baseline_unigram", b.unigram});
    trace.fact({"baseline_bigram", b.bigram});
    trace.fact({"baseline_trigram", b.trigram});
    if (feed_.floor()) trace.fact({"floor", *feed_.floor()});
    for (std::size_t i = 0; i < n_role; ++i)
      if (t_.lr_scale.values[i] != 1)
        trace.fact({"lr_scale_" + std::string(role_names[i]), t_.lr_scale.values[i]});
  }

  // False: the run ends here.
  bool one_step(TraceWriter& trace) {
    const auto due = [&](std::int64_t every) { return observers_.write && every > 0 && step_ % every == 0; };
    const bool all = due(config_.probe.all_every), probed = all || due(config_.probe.every);
    plan_.observe(probed);
    if (probed && observers_.choose) observers_.choose(all);
    feed_.fill(step_, 0, x_, y_);
    const double t0 = now_s();
    const LossResult loss = plan_.loss_and_grad(x_, y_, {step_, step_ * t_.batch_size * t_.accumulate});
    const double norm = plan_.grad_norm();
    if (!std::isfinite(loss.loss) || !std::isfinite(norm)) {
      stop_non_finite(loss, norm, trace);
      return false;
    }
    if (probed && observers_.updated) std::ranges::copy(store_.values(), before_.begin());
    Rate rate = rate_at(t_, step_);
    if (step_ == t_.steps / 2) rate.lr *= faults_.spike;
    const Clipped clipped = optimizer_->update(store_, plan_.grads(), norm, rate, pool_);
    store_narrowly();
    plan_.commit();
    if (probed && observers_.updated)
      observers_.updated(store_.layout(), before_, store_.values(), plan_.grads());
    trained_s_ += now_s() - t0;
    ++trained_steps_;

    // What else is minimised is told apart: losses are held against each other and against the baselines.
    const double ce = loss.cross_entropy;
    if (step_ == 0) result_.initial_loss = ce;
    recent_.add(ce);
    StepRow row;
    row.step = step_;
    row.values = {{"loss", ce},
                  {"lr", rate.lr},
                  {"grad_norm", norm},
                  {"tokens", static_cast<double>(step_) * static_cast<double>(x_.size())}};
    if (loss.loss != ce) {
      row.values.emplace_back("cross_entropy", ce);
      row.values.emplace_back("objective", loss.loss);
    }
    if (clipped.units > 0)
      row.values.emplace_back("agc_clipped",
                              static_cast<double>(clipped.shortened) / static_cast<double>(clipped.units));
    if (probed) {
      observers_.write(row);
      if (events_.probed) events_.probed(row);
    }
    write(row, trace);
    finish_step(ce, norm, rate.lr, trace);
    return true;
  }

  void write(const StepRow& row, TraceWriter& trace) {
    trace.step(row);
    if (events_.row) events_.row(row);
  }

  // After the update: validation and checkpoint when they are due, then the report.
  void finish_step(double loss, double norm, double lr, TraceWriter& trace) {
    StepReport report{step_, t_.steps, loss, norm, lr, tokens_per_s(), 0, {}};
    const std::int64_t done = step_ + 1;
    validated_ = done == t_.steps || (t_.eval_every > 0 && done % t_.eval_every == 0);
    if (validated_) {
      const double t0 = now_s();
      result_.val_loss = validation_.loss();
      eval_s_ = now_s() - t0;
      report.val_loss = result_.val_loss;
      StepRow row;
      row.step = done;
      row.values = {{"val_loss", result_.val_loss}};
      write(row, trace);
    }
    if (done == t_.steps || (t_.checkpoint_every > 0 && done % t_.checkpoint_every == 0)) save(done);
    const double left = static_cast<double>(t_.steps - done);
    report.seconds_left = left * trained_s_ / static_cast<double>(trained_steps_) +
                          (t_.eval_every > 0 ? left / static_cast<double>(t_.eval_every) * eval_s_ : 0);
    if (events_.step) events_.step(report);
  }

  void stop_non_finite(const LossResult& loss, double norm, TraceWriter& trace) {
    const auto bad = plan_.first_non_finite(x_, y_, {step_, step_ * t_.batch_size * t_.accumulate});
    result_.status = "non_finite";
    result_.reason =
        bad ? fmt::format("the first tensor that is not finite is {} (element {} is {}{})", bad->tensor,
                          bad->element, number_text(bad->value),
                          bad->shard >= 0 ? fmt::format(", shard {}", bad->shard) : std::string())
            : std::string("every tensor of a replay is finite; the sum of gradients overflowed");
    StepRow row;
    row.step = step_;
    row.values = {{"loss", loss.cross_entropy}, {"grad_norm", norm}};
    if (std::isfinite(loss.cross_entropy) && !std::isfinite(loss.loss))
      row.values.emplace_back("objective", loss.loss);
    write(row, trace);
    trace.fact({"non_finite", result_.reason});
  }

  double tokens_per_s() const {
    return trained_s_ > 0 ? static_cast<double>(trained_steps_) * static_cast<double>(x_.size()) / trained_s_
                          : 0;
  }

  void save(std::int64_t step) {
    save_checkpoint(out_ / checkpoint_name(step),
                    {config_, spec_, feed_.tokenizer().to_json(), step, simd_target(), feed_.corpus().sha256,
                     observers_.memory ? observers_.memory() : std::string()},
                    store_, *optimizer_);
    saved_ = step;
    prune_checkpoints(out_, t_.keep_checkpoints);
  }

  void write_manifest(const std::string& status) {
    if (manifest_.is_null()) manifest_ = manifest(config_, feed_.corpus());
    Json& m = manifest_;
    m["params_hash"] = store_.hash();
    m["status"] = status;
    m["faults"] = Json(config_.fault.inject);
    m["steps"] = step_;
    Json products = Json::array();
    for (const auto& [shape, impl] : plan_.products()) products.push_back(shape.text() + ": " + impl);
    m["products"] = products;
    write_file_atomic(out_ / "manifest.json", m.dump(2) + "\n");
  }

  Config config_, sick_;  // as it was said, and with what its faults change
  RunFaults faults_;
  const TrainConfig& t_;
  fs::path out_;
  bool new_folder_;
  const TrainEvents& events_;
  fs::path resumed_, from_;
  std::vector<std::string> remarks_;
  DecoderSpec spec_;
  Feed feed_;
  ThreadPool pool_;
  ParamStore<float> store_;
  std::unique_ptr<Optimizer<float>> optimizer_;
  Observers observers_;
  Plan<float> plan_;
  Validation validation_;
  std::vector<std::int32_t> x_, y_;
  std::vector<float> before_;  // parameters before a probed update
  RecentLoss recent_;
  TrainResult result_;
  Json manifest_;
  std::optional<FolderLock> lock_;
  std::int64_t step_ = 0, trained_steps_ = 0, saved_ = -1;
  double trained_s_ = 0, eval_s_ = 0;
  bool validated_ = false;
};

}  // namespace

bool changes_no_bit(std::string_view key) {
  constexpr std::string_view all[] = {"train.threads", "train.recompute", "train.checkpoint_every",
                                      "train.keep_checkpoints"};
  return std::ranges::find(all, key) != std::end(all);
}

TrainJob resume_job(const fs::path& run, const std::vector<std::string>& set) {
  newest_checkpoint(run);  // refuses what is no run
  std::error_code error;
  if (!fs::is_directory(run, error)) bad_input("{} is a file; resume takes the run's folder", run.string());
  // A run that is still being written deletes checkpoints under who reads them.
  const FolderLock while_reading(run);
  TrainJob job;
  job.out = run;
  CheckpointInfo info;
  const auto all = checkpoints(run);
  for (std::size_t i = 0; i < all.size(); ++i) {
    try {
      info = read_checkpoint_info(all[i]);
      job.checkpoint = all[i];
      break;
    } catch (const Error& e) {
      if (i + 1 == all.size()) throw;
      job.remarks.push_back(fmt::format("{}; the checkpoint before it is taken", e.what()));
    }
  }
  job.config = info.config;
  // An earlier resume may have set what is free.
  const Config file = load_config(run / "config.toml");
  for (const auto& field : config_fields())
    if (!changes_no_bit(field.path()) && field.get(file) != field.get(info.config))
      bad_input(
          "{} = {} in {}/config.toml, but the run was made with {}; set it back, or start a new run with "
          "`plumb train {}/config.toml --from {}`",
          field.path(), field_text(field.get(file)), run.string(), field_text(field.get(info.config)),
          run.string(), run.string());
  for (const std::string& s : set) {
    Config changed = job.config;
    set_value(changed, s);
    for (const auto& field : config_fields())
      if (field.get(changed) != field.get(job.config) && !changes_no_bit(field.path()))
        bad_input(
            "{} cannot change when a run is resumed: the result would not be the run's; start a new one with "
            "`plumb train {}/config.toml --from {} --set {}`",
            field.path(), run.string(), run.string(), s);
    job.config = std::move(changed);
  }
  return job;
}

TrainResult train(const TrainJob& job, const Components& components, const Corpus& corpus,
                  const TrainEvents& events) {
  return Trainer(job, components, corpus, events).run();
}

}  // namespace plumb
