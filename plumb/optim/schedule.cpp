#include "plumb/optim/schedule.h"

#include <cmath>
#include <numbers>

namespace plumb {

double learning_rate(const ScheduleSpec& s, std::int64_t step) {
  if (step < s.warmup) return s.lr * static_cast<double>(step + 1) / static_cast<double>(s.warmup);
  if (s.kind == "constant") return s.lr;
  if (step >= s.steps) return s.min_lr;
  const double r = static_cast<double>(step - s.warmup) / static_cast<double>(s.steps - s.warmup);
  if (s.kind == "linear") return s.lr + r * (s.min_lr - s.lr);
  return s.min_lr + 0.5 * (1 + std::cos(std::numbers::pi * r)) * (s.lr - s.min_lr);
}

}  // namespace plumb
