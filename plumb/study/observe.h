// Every probe there is, as one; and joined to a trainer, which knows none of them.
#pragma once
#include "plumb/probe/probe.h"
#include "plumb/train/trainer.h"

namespace plumb {

class ProbeSet {
 public:
  explicit ProbeSet(const DecoderSpec&);
  std::vector<Hook<float>*> hooks() const;
  bool watches_update() const;
  /// To those that do: flat parameters before and after the optimiser's update.
  void updated(const ParamLayout&, std::span<const float> before, std::span<const float> after);
  /// Adds what all of them measured in the last call of the plan.
  void write(StepRow& row) const;

 private:
  std::vector<std::unique_ptr<Probe>> probes_;
};

/// Borrows `probes`.
Observers observers_of(ProbeSet& probes);

}  // namespace plumb
