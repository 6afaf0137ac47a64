#include "plumb/study/confirm.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plumb/base/error.h"
#include "plumb/model/decoder.h"
#include "plumb/study/short_run.h"

namespace plumb {
namespace {

constexpr int n_seed = 3;

// The mean of the last losses; a run that broke has none, and is worse than any other.
double loss_of(const Config& c, std::int64_t seed, const Components& components, const Corpus& corpus,
               const std::function<bool()>& interrupted) {
  const TrainResult r = short_run(c, seed, components, corpus, interrupted);
  return r.status == "done" ? r.train_loss : HUGE_VAL;
}

}  // namespace

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
