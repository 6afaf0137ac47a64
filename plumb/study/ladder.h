// Parts left out from the start: short trainings of a config and of the same without one part, from the same
// seeds.
//
// What a trained model loses when a part is taken away is not what a model without it would have learned: the
// others would have made up for it.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "plumb/config/config.h"
#include "plumb/data/baselines.h"
#include "plumb/data/text_corpus.h"
#include "plumb/model/components.h"
#include "plumb/study/statistics.h"

namespace plumb {

struct LadderOptions {
  std::int64_t steps = 200;  // of each run; warm-up and schedule shrink with them
  std::int64_t seeds = 3;
  std::function<void(std::string_view arm, int run, int runs)> progress = {};
  std::function<bool()> interrupted = {};
};

struct Rung {
  std::string arm, setting;  // "no residual path", "model.residual=none"; the whole config: "whole", ""
  std::string refused;       // why it was not trained; empty: it was
  std::vector<double> losses = {};             // on the validation split, by seed; NaN of a run that broke
  std::int64_t broke = 0;                      // runs that did
  std::optional<PairedDifference> delta = {};  // to the whole one, over seeds; none where a run broke
  /// A loss within 0.02 of a trivial model's: a degenerate solution, and no measurement of the part.
  /// "uniform", "unigram".
  std::string degenerate = {};
  double mean() const;  // of the runs that did not break
};

struct Ladder {
  std::int64_t steps = 0, seeds = 0;
  Baselines baselines{};
  std::vector<Rung> rungs;  // the whole config first
};

/// Arms whose setting the config has already, or that its components do not read, are left out.
Ladder ladder(const Config&, const Components&, const Corpus&, const LadderOptions& = {});

/// Which trivial model a loss is within 0.02 nats of; empty: none.
std::string degenerate_as(double loss, const Baselines&);

}  // namespace plumb
