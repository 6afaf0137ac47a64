// A short training at the run's own peak rate, watched from inside: does the model begin to read its context? Of Post-LN outside
// its window the predictions of neighbouring positions become one and stay so, hundreds of steps before the loss says it.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "plumb/study/patient.h"

namespace plumb {

/// By ten steps: their mean loss, and the mean KL of adjacent predictions in the last of them, in nats.
struct PilotCourse {
  std::vector<double> step, loss, kl;
};

/// Takes a copy of what it needs when it is made, so that `run` may go on beside other uses of the patient. 160 steps of 256
/// tokens or four sequences, the rate constant behind a warm-up of the run's, 30 steps at most.
class Pilot {
 public:
  explicit Pilot(const Patient&);
  ~Pilot();
  /// Ends early where a value is not finite. Error with exit status 130 when interrupted.
  PilotCourse run(const std::function<bool()>& interrupted);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace plumb
