// A finding proved by its mend: short runs from the same seeds, as the config is, with the mend, and with a mend that helps
// against most things (half the learning rate, twice the warm-up). Only what beats that one is what was wrong.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "plumb/config/config.h"
#include "plumb/data/text_corpus.h"
#include "plumb/doctor/doctor.h"
#include "plumb/model/components.h"
#include "plumb/study/statistics.h"

namespace plumb {

struct Confirmation {
  std::optional<bool> confirmed;  // empty: it cannot be told; `because` says why
  std::string because;
  PairedDifference mend, over_generic;  // with the mend minus as it is; minus the generic mend
};

struct ConfirmOptions {
  std::int64_t steps = 200;  // of each of nine runs; warm-up and schedule shrink with them
  std::function<void(int run, int runs)> progress = {};
  std::function<bool()> interrupted = {};
};

/// What helps against most things: half the learning rate, twice the warm-up and ten steps more.
Config generic_mend(const Config& short_run);

/// The mean of the last losses of runs of `steps` steps, shortened alike, from `seeds` seeds on; HUGE_VAL: the run broke. Error
/// with exit status 130 when interrupted.
std::vector<double> short_losses(const Config&, std::int64_t steps, int seeds, const Components&,
                                 const Corpus&, const std::function<bool()>& interrupted);

/// `patch` empty: nothing to try.
Confirmation confirm(const Config&, const Patch& patch, const Components&, const Corpus&,
                     const ConfirmOptions& = {});

}  // namespace plumb
