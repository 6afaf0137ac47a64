// Optimisers: one update rule a file; the table is generated from the file names. What all of them share is
// here: clipping, decay, learning rates by role, and state under names.
//
// In this order: adaptive clipping of each unit (agc), then clipping by the global norm of what that left,
// then the rule; decay is decoupled in every one: p shrinks by a factor of its own before its update is
// added, and the gradient knows nothing of it (Loshchilov & Hutter 2017, arXiv 1711.05101).
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "plumb/base/threads.h"
#include "plumb/plan/params.h"
#include "plumb/spec/entry.h"
#include "plumb/tensor/arena.h"

namespace plumb {

struct OptimSpec {
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8;  // adamw
  double momentum = 0.9;                         // sgd, muon
  double weight_decay = 0.1;
  /// false: p <- p (1 - lr(t) weight_decay). true: p <- p (1 - lr(t) / peak lr * weight_decay), so that decay
  /// does not change with the learning rate (Wortsman et al. 2023, arXiv 2309.14322); lr_scale does not reach
  /// it, but for 0.
  bool independent_decay = false;
  double grad_clip = 1.0;  // largest norm of all gradients; 0: off
  double agc = 0;          // adaptive clipping's lambda; 0: off
  ByRole lr_scale = {};    // times lr, by role; 0: frozen, though its gradient still counts in the norm
};

/// The learning rate of an update, and what it is of the schedule's peak.
struct Rate {
  double lr = 0, schedule = 1;
};

/// The clip coefficient min(1, clip / (norm + 1e-6)), 1 when clip is 0.
double clip_scale(double grad_norm, double clip);

/// What adaptive clipping did: of `units`, `shortened` had a gradient too long.
struct Clipped {
  std::int64_t units = 0, shortened = 0;
};

/// A parameter's own factors: of learning rate and of decay (0 where decay is not right for it). Decay knows
/// the factor by role, not that of the parametrisation: muP divides a hidden matrix's learning rate by its
/// width, and its decay stays.
struct ParamRate {
  double lr = 1, lr_of_decay = 1, decay = 0;
  bool independent = false;
  ParamRate() = default;
  /// `parametrisation`: the rule's factor for this kind of optimiser.
  ParamRate(const ParamInfo&, const OptimSpec&, double parametrisation);
  double step(const Rate& r) const { return r.lr * lr; }
  /// p <- p (1 - shrink) first.
  double shrink(const Rate& r) const {
    if (independent) return lr == 0 ? 0 : r.schedule * decay;
    return r.lr * lr_of_decay * decay;
  }
};

/// What a rule sees of an update. The gradients are clipped by units already, and still to be multiplied by
/// `grad_scale`.
template <class R>
struct Update {
  R* values;  // in the layout of the store, as the gradients are
  const R* grads;
  double grad_scale;
  Rate rate;
  std::int64_t t;  // counts from 1
  ThreadPool& pool;
};

/// State of an optimiser that belongs to one parameter, in a checkpoint "optim.<kind>.<parameter>".
template <class R>
struct OptimState {
  std::string_view kind;
  View<R> view;
};

/// A number for each element of some of the parameters, 0 at the start.
template <class R>
class StateBuffer {
 public:
  StateBuffer() = default;
  StateBuffer(const ParamLayout&, const std::function<bool(const ParamInfo&)>& chosen);
  bool has(const ParamInfo& p) const { return offsets_.contains(p.offset); }
  View<R> view(const ParamInfo& p) const;
  std::size_t bytes() const { return values_.bytes(); }

 private:
  std::map<std::int64_t, std::int64_t> offsets_;  // of a parameter in its layout -> here
  Arena values_;
};

template <class R>
class Optimizer {
 public:
  Optimizer(const ParamLayout&, const OptimSpec&);
  virtual ~Optimizer() = default;

  /// One update; `grad_norm` is of the unclipped gradients, which lie in the layout of the store and are
  /// clipped in place when `agc` is on. The same bits on any number of threads.
  Clipped update(ParamStore<R>& store, std::span<R> grads, double grad_norm, const Rate&, ThreadPool&);

  std::int64_t steps() const { return t_; }
  void steps(std::int64_t t) { t_ = t; }
  /// In one order, the checkpoint's. Together with `steps` it is all that an update reads beside its
  /// arguments.
  virtual std::vector<OptimState<R>> state(const ParamInfo&) const = 0;
  virtual std::size_t bytes() const = 0;

 protected:
  virtual void apply(const Update<R>&) = 0;

 private:
  struct Units {  // rows of a matrix, or one unit: a whole vector
    std::int64_t offset, n, size;
  };
  Clipped clip_units(const ParamStore<R>&, std::span<R> grads, ThreadPool&);
  double grad_clip_, agc_;
  std::vector<Units> units_;
  std::vector<std::int64_t> shortened_;
  std::vector<double> squares_;
  std::int64_t t_ = 0;
};

/// Pieces of parameters, small enough to share among threads. Element-wise rules run on them: any cut gives
/// the same bits.
struct Piece {
  std::int64_t offset, n;  // in the store
  std::size_t param;       // in the layout
  std::int64_t at;         // the first element, within the parameter
};
std::vector<Piece> pieces_of(const ParamLayout&, const std::function<bool(const ParamInfo&)>& chosen);

struct OptimEntry : Entry {
  /// A batch k times as large wants k^batch_power times the learning rate: 1 for rules linear in the
  /// gradient, 1/2 where a step's size does not depend on the gradient's (Malladi et al. 2022, arXiv
  /// 2205.10782). A rule of thumb for batches well below the critical one.
  double batch_power;
  /// `threads`: of the pool that `update` will be given, at most.
  std::unique_ptr<Optimizer<float>> (*make_f32)(const ParamLayout&, const OptimSpec&, int threads);
  std::unique_ptr<Optimizer<double>> (*make_f64)(const ParamLayout&, const OptimSpec&, int threads);

  template <class R>
  std::unique_ptr<Optimizer<R>> make(const ParamLayout& layout, const OptimSpec& s, int threads) const {
    if constexpr (std::is_same_v<R, float>)
      return make_f32(layout, s, threads);
    else
      return make_f64(layout, s, threads);
  }
  double scaled_lr(double lr, double batch_factor) const;
};
std::vector<OptimEntry> optim_table();

/// The entry of rule T<R>.
template <template <class> class T>
constexpr OptimEntry optim_entry(const Entry& e, double batch_power) {
  return {e, batch_power,
          [](const ParamLayout& l, const OptimSpec& s, int threads) -> std::unique_ptr<Optimizer<float>> {
            return std::make_unique<T<float>>(l, s, threads);
          },
          [](const ParamLayout& l, const OptimSpec& s, int threads) -> std::unique_ptr<Optimizer<double>> {
            return std::make_unique<T<double>>(l, s, threads);
          }};
}

/// The entry called `name`; bad_input naming the nearest known otherwise.
const OptimEntry& choose_optimizer(const std::vector<OptimEntry>&, std::string_view name);

}  // namespace plumb
