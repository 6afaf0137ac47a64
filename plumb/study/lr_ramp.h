// The learning rate range test: a short training whose rate grows.
#pragma once
#include <functional>
#include <vector>

#include "plumb/study/patient.h"

namespace plumb {

struct LrRamp {
  std::vector<double> rates, losses;  // of each step: nats a token before its update
};

/// 40 steps from train.lr / 100 to 100 train.lr, in equal ratios, on a copy of the patient's parameters; it ends before
/// where the loss or its gradient is not finite (that loss is the last). `each` is called before every step and may
/// throw. Smith 2017, arXiv 1506.01186, section 3.3.
LrRamp lr_ramp(Patient&, const std::function<void()>& each);

}  // namespace plumb
