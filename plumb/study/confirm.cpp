#include "plumb/study/confirm.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plumb/base/error.h"
#include "plumb/base/student.h"
#include "plumb/model/decoder.h"
#include "plumb/study/scratch.h"
#include "plumb/train/trainer.h"

namespace plumb {
namespace {

constexpr int n_seed = 3;

// The mean of the last losses; a run that broke has none, and is worse than any other.
double loss_of(Config c, std::int64_t seed, const Components& components, const Corpus& corpus,
               const std::function<bool()>& interrupted) {
  const Scratch dir;
  c.train.seed = seed;
  TrainEvents events;
  events.interrupted = interrupted;
  const TrainResult r = train({.config = c, .out = dir.path / "run"}, components, corpus, events);
  if (r.status == "interrupted") throw Error("interrupted; nothing was written", 130);
  return r.status == "done" ? r.train_loss : HUGE_VAL;
}

}  // namespace

Config shortened_to(const Config& given, std::int64_t steps) {
  Config c = given;
  const double by =
      static_cast<double>(steps) / static_cast<double>(std::max<std::int64_t>(steps, c.train.steps));
  c.train.warmup = std::llround(static_cast<double>(c.train.warmup) * by);
  c.train.steps = steps;
  c.train.eval_every = c.train.checkpoint_every = 0;
  return c;
}

PairedDifference paired(const std::vector<double>& a, const std::vector<double>& b) {
  const auto n = static_cast<double>(a.size());
  if (a.size() != b.size() || a.size() < 2)
    fail("pairs of {} and {} losses have no interval; give two pairs or more", a.size(), b.size());
  std::vector<double> difference;
  // Infinity less itself is no number: of two that broke, neither is worse.
  for (std::size_t i = 0; i < a.size(); ++i) difference.push_back(a[i] == b[i] ? 0 : a[i] - b[i]);
  double mean = 0, squares = 0;
  for (const double d : difference) mean += d / n;
  if (!std::isfinite(mean)) return {mean, mean, mean};  // one of them broke
  for (const double d : difference) squares += std::pow(d - mean, 2);
  const double half =
      student_quantile(0.975, static_cast<int>(a.size()) - 1) * std::sqrt(squares / (n - 1) / n);
  return {mean, mean - half, mean + half};
}

Config generic_mend(const Config& short_run) {
  Config c = short_run;
  c.train.lr /= 2;
  c.train.warmup = std::min(2 * c.train.warmup + 10, c.train.steps / 2);
  return c;
}

std::vector<double> short_losses(const Config& config, std::int64_t steps, int seeds,
                                 const Components& components, const Corpus& corpus,
                                 const std::function<bool()>& interrupted) {
  const Config c = shortened_to(config, steps);
  std::vector<double> losses;
  for (int i = 0; i < seeds; ++i)
    losses.push_back(loss_of(c, c.train.seed + i, components, corpus, interrupted));
  return losses;
}

Confirmation confirm(const Config& given, const Patch& patch, const Components& components,
                     const Corpus& corpus, const ConfirmOptions& o) {
  if (patch.empty()) return {{}, "the mend is in code, not in a setting", {}, {}};
  const Config as_is = shortened_to(given, o.steps);
  const Config generic = generic_mend(as_is);
  Config mended = as_is;
  try {
    for (const auto& [key, value] : patch)
      set_value(mended, key + "=" + (value.is_string() ? value.as_string("") : value.dump()));
    check_spec(spec_of(mended, mended.data.vocab_size, components), components);
  } catch (const Error& e) {
    return {{}, fmt::format("the mend does not fit this config: {}", e.what()), {}, {}};
  }
  std::vector<double> before, after, other;
  int run = 0;
  for (int i = 0; i < n_seed; ++i)
    for (const auto& [config, losses] : {std::pair{&as_is, &before}, {&mended, &after}, {&generic, &other}}) {
      if (o.progress) o.progress(run++, 3 * n_seed);
      losses->push_back(loss_of(*config, given.train.seed + i, components, corpus, o.interrupted));
    }
  Confirmation c;
  c.mend = paired(after, before), c.over_generic = paired(after, other);
  c.confirmed = c.mend.high < 0 && c.over_generic.high < 0;
  c.because = fmt::format(
      "after {} steps the loss is {:+.3f} with the mend (95 %: {:+.3f} to {:+.3f}), and {:+.3f} ({:+.3f} to "
      "{:+.3f}) of "
      "half the learning rate and a longer warm-up; {} seeds",
      o.steps, c.mend.mean, c.mend.low, c.mend.high, c.over_generic.mean, c.over_generic.low,
      c.over_generic.high, n_seed);
  return c;
}

}  // namespace plumb
