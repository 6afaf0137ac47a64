// Learning-rate schedules.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <string>

namespace plumb {

struct ScheduleSpec {
  std::string kind = "cosine";  // constant | linear | cosine | wsd
  double lr = 3e-3, min_lr = 0;
  std::int64_t warmup = 100, steps = 1200;
};

/// The last share of all steps in which `wsd` decays. Hägele et al. 2024, arXiv 2405.18392: a cooldown of a
/// fifth reaches a cosine's loss; MiniCPM (Hu et al. 2024, arXiv 2404.06395) takes a tenth.
inline constexpr double wsd_decay_share = 0.2;

/// The learning rate of the update after `step` updates. Warm-up: lr (step + 1) / warmup for step < warmup.
/// Then, with r = (step - warmup) / (steps - warmup): cosine min + ½ (1 + cos πr)(lr − min) (Loshchilov &
/// Hutter 2016, arXiv 1608.03983, eq. 5), linear lr + r (min − lr), constant lr; wsd: lr, and over the last
/// fifth of `steps` linear as above with that fifth's start (or the warm-up's end, where it is later) in
/// place of the warm-up's end. From `steps` on min_lr (constant: lr).
inline double learning_rate(const ScheduleSpec& s, std::int64_t step) {
  if (step < s.warmup) return s.lr * static_cast<double>(step + 1) / static_cast<double>(s.warmup);
  if (s.kind == "constant") return s.lr;
  if (step >= s.steps) return s.min_lr;
  std::int64_t from = s.warmup;
  if (s.kind == "wsd") {
    const double decay = wsd_decay_share * static_cast<double>(s.steps);
    from = std::max(from, s.steps - static_cast<std::int64_t>(std::llround(decay)));
    if (step < from) return s.lr;
  }
  const double r = static_cast<double>(step - from) / static_cast<double>(s.steps - from);
  if (s.kind != "cosine") return s.lr + r * (s.min_lr - s.lr);
  return s.min_lr + 0.5 * (1 + std::cos(std::numbers::pi * r)) * (s.lr - s.min_lr);
}

/// learning_rate over its peak: what independent weight decay is multiplied by. 0 when the peak is 0.
inline double schedule_share(const ScheduleSpec& s, std::int64_t step) {
  return s.lr > 0 ? learning_rate(s, step) / s.lr : 0;
}

}  // namespace plumb
