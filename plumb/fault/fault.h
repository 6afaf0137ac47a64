// Faults: what can be wrong with a run, made wrong on purpose. One fault a file; the table is generated from
// the file names, which are the ids that a diagnosis answers with (CONTRACT, "Causes the doctor knows").
//
// A fault changes the config before anything is made of it, the spec, the graph while it is built, or the run
// around the model. What a person said stays written down as it was said: a run's config.toml has the
// healthy values and the section [fault].
#pragma once
#include <functional>
#include <memory>

#include "plumb/config/config.h"
#include "plumb/plan/builder.h"
#include "plumb/residual/residual.h"
#include "plumb/spec/spec.h"

namespace plumb {

/// What faults change in a run beside its model; feed and trainer read it. The defaults change nothing.
struct RunFaults {
  std::int64_t target_shift = 0;      // each target is so many tokens further on than the next one
  double train_share = 1;             // of the training tokens, from their start, is trained on
  bool validate_on_training = false;  // the validation loss is taken over training tokens
  bool evaluate_in_training_mode = false;
  double spike = 1;               // times the learning rate, in the one step in the middle of the run
  double loss_factor = 1;         // times loss and gradients
  bool forget_optimizer = false;  // a resumed run starts with an empty optimiser
  bool random_order = false;      // the order of samples does not come from the seed
};

/// Changes the graph while it is built. One object a graph: it may remember values of it.
template <class R>
struct GraphFault {
  virtual ~GraphFault() = default;
  /// What takes the place of `v`, the value at a named point; `v` itself where nothing is to change.
  virtual Value at(Builder<R>&, std::string_view point, Value v) {
    (void)point;
    return v;
  }
  /// Changes how a parameter starts and how it is updated.
  virtual void rule(const ParamSpec&, ParamRule&) const {}
};

struct FaultEntry {
  std::string_view name, what;
  /// What strength 1 is and what lies between; empty: the fault is there or not, whatever the strength.
  std::string_view strength = {};
  double low = 0, high = 1;  // strengths that a graded one takes, 0 left out
  /// Why it cannot be in this (resolved) run, in one sentence; empty: it can.
  std::string (*refuses)(const Config&) = nullptr;
  void (*config)(Config&, double strength) = nullptr;
  void (*spec)(DecoderSpec&, double strength) = nullptr;
  void (*run)(RunFaults&, const Config&, double strength) = nullptr;
  std::unique_ptr<GraphFault<float>> (*graph_f32)(const DecoderSpec&, double strength) = nullptr;
  std::unique_ptr<GraphFault<double>> (*graph_f64)(const DecoderSpec&, double strength) = nullptr;

  /// Never null: one that changes nothing where the fault is not in the graph.
  template <class R>
  std::unique_ptr<GraphFault<R>> graph(const DecoderSpec& s) const {
    const auto make = [&](auto* f) { return f ? f(s, s.flaws.strength) : std::make_unique<GraphFault<R>>(); };
    if constexpr (std::is_same_v<R, float>)
      return make(graph_f32);
    else
      return make(graph_f64);
  }
};
std::vector<FaultEntry> fault_table();

/// An entry whose fault is in the graph: T<R> is constructed from spec and strength.
template <template <class> class T>
constexpr FaultEntry graph_fault(FaultEntry e) {
  e.graph_f32 = [](const DecoderSpec& s, double strength) -> std::unique_ptr<GraphFault<float>> {
    return std::make_unique<T<float>>(s, strength);
  };
  e.graph_f64 = [](const DecoderSpec& s, double strength) -> std::unique_ptr<GraphFault<double>> {
    return std::make_unique<T<double>>(s, strength);
  };
  return e;
}

/// The entry called `name`; bad_input naming the nearest known otherwise, and `place`.
const FaultEntry& fault_named(const std::vector<FaultEntry>&, std::string_view name, std::string_view place);

/// The config with what its faults change in it. bad_input for an unknown fault, one named twice, one that
/// cannot be in this run, two that change the same key, and a strength that one does not take. `resolved`: as
/// resolve_config leaves it.
Config with_faults(const Config& resolved, const std::vector<FaultEntry>&);

/// What its faults change in the spec. `seed`: of what they draw.
void add_faults(DecoderSpec&, const FaultConfig&, std::int64_t seed, const std::vector<FaultEntry>&);

/// What its faults change around the model.
RunFaults run_faults(const Config& resolved, const std::vector<FaultEntry>&);

/// bad_input: the fault has nothing to be wrong about here.
[[noreturn]] void refuse_idle(std::string_view name);

/// "no_final_norm, lr_too_high (strength 2)", for people; empty without faults.
std::string faults_text(const FaultConfig&);

/// docs/faults.md.
std::string faults_markdown(const std::vector<FaultEntry>&);

// -- for the faults themselves

/// The block where a fault of one place sits.
std::string middle_block(const DecoderSpec&);
/// Is `point` "blocks.N" + `end`, with no name in between?
bool is_block_point(std::string_view point, std::string_view end);
/// N of "blocks.N…".
std::int64_t block_number(std::string_view point);
/// "there is no norm in this model": a reason to refuse, or empty.
std::string refuses_without_norm(const Config&);
std::string refuses_without_positions(const Config&);

/// times k: how fast a parameter learns.
void learn_times(ParamRule&, double k);
/// times k: the learning rate of the whole run.
void scale_lr(Config&, double k);

/// What stands at the points "`head`…`tail`" is multiplied by a constant.
template <class R>
class ScaledAt : public GraphFault<R> {
 public:
  ScaledAt(std::string head, std::string tail, double by)
      : head_(std::move(head)), tail_(std::move(tail)), by_(by) {}
  Value at(Builder<R>& b, std::string_view point, Value v) override {
    if (!point.starts_with(head_) || !point.ends_with(tail_)) return v;
    return scaled(b, by_, v, std::string(point) + ".fault");
  }

 private:
  std::string head_, tail_;
  double by_;
};

/// y = m x, m a constant for each element, which `forward` writes for row i of `rows`. `backward`: those of
/// the gradient; empty: the same. Neither may read tensors of the run.
template <class R>
using RowFactors =
    std::function<void(const Run<R>&, std::int64_t i, std::int64_t rows, std::span<R> factors)>;
template <class R>
Value multiplied(Builder<R>&, Value x, std::string_view kind, RowFactors<R> forward, RowFactors<R> backward,
                 const std::string& name);

}  // namespace plumb
