// Learning-rate schedules.
#pragma once
#include <cstdint>
#include <string>

namespace plumb {

struct ScheduleSpec {
  std::string kind = "cosine";  // constant | linear | cosine
  double lr = 3e-3, min_lr = 0;
  std::int64_t warmup = 100, steps = 1200;
};

/// The learning rate of the update after `step` updates. Warm-up: lr (step + 1) / warmup for step < warmup. Then, with
/// r = (step - warmup) / (steps - warmup): cosine min + ½ (1 + cos πr)(lr − min) (Loshchilov & Hutter 2016, arXiv
/// 1608.03983, eq. 5), linear lr + r (min − lr), constant lr; from `steps` on min_lr (constant: lr).
double learning_rate(const ScheduleSpec&, std::int64_t step);

}  // namespace plumb
