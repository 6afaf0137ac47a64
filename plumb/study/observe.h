// Every probe there is, as one; and joined to a trainer, which knows none of them.
#pragma once
#include "plumb/probe/probe.h"
#include "plumb/train/trainer.h"

namespace plumb {

class ProbeSet {
 public:
  explicit ProbeSet(const DecoderSpec&);
  ProbeSet(const ProbeSet&) = delete;
  ProbeSet& operator=(const ProbeSet&) = delete;
  ~ProbeSet();
  std::vector<Hook<float>*> hooks() const;
  /// Whether the costly ones see the steps that follow; at first they do.
  void choose(bool all);
  /// Whether none of them sees the steps that follow; `write` then has what was seen before.
  void rest(bool);
  bool watches_update() const;
  /// To those that do: flat parameters before and after the optimiser's update, and the gradients.
  void updated(const ParamLayout&, std::span<const float> before, std::span<const float> after,
               std::span<const float> grads);
  /// Adds what all of them measured in the last call of the plan.
  void write(StepRow& row) const;
  /// What they must know of earlier steps, as one text; empty: nothing. `recall` takes it back.
  std::string memory() const;
  void recall(const std::string&);

  /// What each took since the beginning, summed over threads: reading the points, and looking at updates. What
  /// an op does so that there is something to read (statistics of attention) is not in it.
  struct Cost {
    std::string_view name;
    double seconds = 0;
    std::int64_t steps = 0;
    bool costly = false;
  };
  std::vector<Cost> costs() const;

 private:
  class Watched;
  std::vector<std::unique_ptr<Watched>> probes_;
};

/// Borrows `probes`.
Observers observers_of(ProbeSet& probes);

}  // namespace plumb
