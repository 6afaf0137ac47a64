// A model as its run would build it, faults and all, on one batch of its data: every named value can be read,
// and any can be changed on the way, to see what follows from it.
#pragma once
#include <array>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "plumb/model/components.h"
#include "plumb/plan/plan.h"
#include "plumb/study/component_run.h"
#include "plumb/study/observe.h"
#include "plumb/train/feed.h"
#include "plumb/train/opened.h"

namespace plumb {

/// Changes a named value in place, before anything else reads it. `first`: which row of the batch is its row 0.
using Edit = std::function<void(std::string_view point, View<float>, std::int64_t first)>;

/// Is shown a named value as it passes, as Edit, and changes nothing.
using Sight = std::function<void(std::string_view point, View<const float>, std::int64_t first)>;

/// What one pass made: values by point, gradients of the loss by point, each with the rows of the whole batch.
struct Seen {
  LossResult loss;
  double grad_norm = 0;
  std::map<std::string, Grid<float>, std::less<>> values, grads;
  /// The value, or nullptr where the model has no such point.
  const Grid<float>* find(std::string_view point) const;
  const Grid<float>* grad(std::string_view point) const;
};

/// Records everything; see Patient.
class Lens final : public Hook<float> {
 public:
  bool wants(std::string_view point, Dir) const override;
  bool rewrites() const override { return true; }
  void begin(int n_shard) override;
  void at(std::string_view point, Dir, View<float> v, int shard) override;
  /// The parts of the shards, one below the other.
  void collect(Seen&) const;
  Edit edit;
  std::string only;         // the one point that is recorded; empty: all of them
  bool records = true;      // false: values pass `edit`, and none is kept
  bool every_head = false;  // the scores and weights of every block's attention too, not of the first alone

 private:
  using Parts = std::map<std::string, Grid<float>, std::less<>>;
  std::vector<Parts> values_, grads_;
};

class Patient {
 public:
  /// `config` as a person wrote it. Every use is as in its run, but for dropout that the config asks for: that is left out,
  /// so that a pass shows the model and not one draw of its noise.
  /// With `checkpoint`, a run or one of its checkpoints: that model with its weights and tokenizer, and batches of the steps
  /// that would follow. `config` is then the one it was made with.
  Patient(const Config& config, const Components&, const Corpus&,
          const std::filesystem::path& checkpoint = {});
  Patient(const Patient&) = delete;
  Patient& operator=(const Patient&) = delete;

  /// One pass of `x`; forward only.
  Seen pass(Mode mode, const Edit& edit = {}) { return pass(mode, x, edit); }
  /// The same in training mode, of which only one point is wanted: copying all of them takes longer than the pass.
  Seen pass_to(const std::string& point, const Edit& edit);
  Seen pass(Mode, std::span<const std::int32_t> tokens, const Edit& = {}, std::int64_t step = 0);
  /// An evaluation pass that keeps nothing, for what looks at many batches or at large values: `sight` is
  /// shown them one by one.
  void watch(std::span<const std::int32_t> tokens, const Sight& sight, std::int64_t step = 0);
  /// The same of `x`, and the scores and weights (B, H, T, T) of every block's attention with it. Its plan is slower than the
  /// others, as attention then makes those matrices, and is made at the first call.
  void watch_attention(const Sight& sight);
  /// … in training mode, and back. The gradients of the parameters are in `grads()` until the next.
  Seen pass_back();
  std::span<float> grads() const;
  /// The numbers of the probes in the last `pass_back`.
  void probe(StepRow&) const;
  std::string first_non_finite();

  std::int64_t rows() const { return static_cast<std::int64_t>(x.size()); }
  std::int64_t block() const { return spec.block_size; }
  std::int64_t sequences() const { return rows() / block(); }

  const Components components;  // its own: plans are made later too
  const Corpus& corpus;
  const Config config, sick;  // as it was said, resolved; and with what its faults change
  const RunFaults faults;
  const std::int64_t step;  // updates that were applied
  DecoderSpec spec;
  const Feed feed;
  ParamStore<float> store;
  std::vector<std::int32_t> x, y;  // the first sequences of the run's next batch

 private:
  Patient(const Config&, const Components&, const Corpus&, std::optional<Opened>);
  Plan<float>& plan(Mode mode) { return mode == Mode::train ? train_ : eval_; }
  Plan<float> evaluation(std::span<Hook<float>* const> hooks);
  static void show(Plan<float>&, Lens&, const Sight&, std::span<const std::int32_t> tokens,
                   std::span<const std::int32_t> targets, const CallKey&);
  ThreadPool pool_{1};
  ProbeSet probes_;
  Lens lens_[3];
  std::vector<Hook<float>*> hooks_[3];
  Plan<float> train_, eval_;
  std::optional<Plan<float>> every_head_;
};

}  // namespace plumb
