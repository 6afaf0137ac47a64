// What an op is and what it sees while it runs: one shard (a fixed slice of whole sequences), one thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plumb/base/precision.h"
#include "plumb/base/threads.h"
#include "plumb/tensor/view.h"

namespace plumb {

enum class Mode : std::uint8_t { train, eval };
enum class Dir : std::uint8_t { forward, backward };

/// What the plan must know about an op's kind.
struct OpInfo {
  std::string_view kind;      // "layer_norm": the row of `bench step` its time goes to
  bool cross_batch = false;   // couples sequences (BatchNorm): the plan then runs one shard with parallel ops
  bool sees_future = false;   // position t reads positions > t: reported by the causality check
};

/// Where a tensor lies; resolved to a View when an op asks. Per-sequence tensors scale with the shard.
struct Binding {
  enum class Space : std::uint8_t { none, arena, param, grad, state, once } space = Space::none;
  bool per_sequence = false;
  bool overwrite = true;      // of a gradient sink
  std::int32_t buffer = -1;   // while planning: which buffer of the arena; `offset` then counts from its start
  std::int64_t offset = 0;    // elements
  std::int64_t rows = 0, cols = 0, stride = 0;  // rows of one sequence when per_sequence
};

/// The bindings of one op in one phase of the schedule.
struct OpBindings {
  std::vector<Binding> in, out, kept, dout, din, state, stat;
};

/// What an op sees. Indices are those of its NodeSpec. Memory behind a View belongs to the plan.
template <class R>
class Run {
 public:
  View<const R> in(std::size_t i) const { return view(b_->in[i]); }
  View<R> out(std::size_t i = 0) const { return view(b_->out[i]); }
  /// Written in forward, read in backward.
  View<R> kept(std::size_t i = 0) const { return view(b_->kept[i]); }
  View<const R> dout(std::size_t i = 0) const { return view(b_->dout[i]); }
  /// Empty when nobody wants this gradient.
  Sink<R> din(std::size_t i) const { return {view(b_->din[i]), b_->din[i].overwrite}; }
  /// Saved or pending state (running statistics), the same memory in every plan of a model.
  View<R> state(std::size_t i) const { return view(b_->state[i]); }
  /// A side result of forward; data == nullptr: nobody asked.
  View<R> stat(std::size_t i) const { return observed_ ? view(b_->stat[i]) : View<R>{}; }
  /// As many bytes as `prepare` asked for; of the calling thread, so pieces of `parallel` may each use it.
  void* scratch() const { return scratch_[workers_->worker()]; }

  std::span<const std::int32_t> tokens() const { return tokens_; }
  std::span<const std::int32_t> targets() const { return targets_; }
  /// Adds to the loss, summed over tokens, in nats. Backward of the loss op multiplies by `loss_scale`.
  void add_loss(double sum) const { *loss_ += sum; }
  double loss_scale() const { return loss_scale_; }
  /// Adds to what is minimised beside the loss, summed over tokens.
  void add_terms(double sum) const { *terms_ += sum; }

  Mode mode() const { return mode_; }
  /// What matrix products round their operands to.
  Format operands() const { return operands_; }
  std::int64_t sequences() const { return n_seq_; }
  /// 0: a full shard; 1: the batch's last, shorter one. Products are prepared for each.
  std::size_t variant() const { return variant_; }
  /// Recomputation or the hunt for a non-finite tensor: change no state.
  bool replay() const { return replay_; }
  /// Updates already applied, and the global number of the shard's first sample: keys for random numbers.
  std::int64_t step() const { return step_; }
  std::int64_t first_sample() const { return first_sample_; }
  /// Where in its sequence the first token of this call stands: 0, but in decoding.
  std::int64_t position() const { return position_; }
  /// Pieces of one op when the plan runs a single shard; serial inside a shard. Cut by size, never by thread count.
  template <class F>
  void parallel(std::int64_t n, const F& fn) const {
    if (pool_) return pool_->run(n, fn);
    for (std::int64_t i = 0; i < n; ++i) fn(i);
  }
  /// Rows of one piece of a cut op: all of them inside a shard.
  std::int64_t piece_rows() const { return piece_rows_; }

 private:
  template <class>
  friend class Plan;
  View<R> view(const Binding& b) const {
    if (b.space == Binding::Space::none) return {};
    return {base_[static_cast<std::size_t>(b.space)] + b.offset, b.per_sequence ? b.rows * n_seq_ : b.rows, b.cols,
            b.stride};
  }
  const OpBindings* b_ = nullptr;
  R* base_[6] = {};
  std::span<const std::int32_t> tokens_, targets_;
  double *loss_ = nullptr, *terms_ = nullptr;
  double loss_scale_ = 0;
  Mode mode_ = Mode::train;
  Format operands_ = Format::fp32;
  bool replay_ = false, observed_ = true;
  std::int64_t n_seq_ = 0, step_ = 0, first_sample_ = 0, position_ = 0, piece_rows_ = 512;
  std::size_t variant_ = 0;
  std::byte* const* scratch_ = nullptr;   // one a worker
  const ThreadPool* workers_ = nullptr;
  ThreadPool* pool_ = nullptr;            // of a plan that runs one shard
};

template <class R>
class ProductCache;

/// An op: forward and, directly under it, backward. Stateless while running (shards run at the same time).
template <class R>
struct Op {
  virtual ~Op() = default;
  virtual OpInfo info() const = 0;
  /// Called while planning, once for each shard size (`r.variant()`), with views that lie where they will lie but hold
  /// nothing yet: makes the matrix products. Returns the bytes of scratch that a run needs.
  virtual std::size_t prepare(const Run<R>& r, ProductCache<R>& products) {
    (void)r, (void)products;
    return 0;
  }
  virtual void forward(Run<R>& r) const = 0;
  virtual void backward(Run<R>& r) const = 0;
  /// Once a step, after it is known to be finite: pending state becomes state.
  virtual void commit(Run<R>&) const {}
};

}  // namespace plumb
