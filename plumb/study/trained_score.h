// What training adds to the scorecard: faulty models are trained beside their healthy twins. How much does the trace alone say,
// how early, and is a finding confirmed by its mend, and not by another?
#pragma once
#include <optional>

#include "plumb/study/scorecard.h"

namespace plumb {

struct TrainedCase {
  ScoreCase before;                       // what looking into the model said
  std::vector<std::string> trace = {};    // causes that the recorded trace alone gives, at the end
  std::vector<std::string> run = {};      // … with what looking into the model gives: `plumb doctor RUN`
  std::optional<std::int64_t> named_at;   // the first step at which the trace alone names an accepted cause
  std::optional<std::int64_t> leaves_at;  // the first at which the loss leaves the band of its healthy twins
  // Of a cause that is right at first: by short runs as `plumb doctor --confirm` makes them. Empty: not tried, as the loss with
  // the fault is not higher than without.
  std::optional<bool> mend, placebo, other;
  bool hurts = false;  // the loss with the fault is higher than without, 95 %
};

struct TrainedOptions {
  std::int64_t steps = 400, confirm_steps = 200;
  int at_a_time = 0;  // cases side by side; 0: as many as there are processors
  std::function<void(std::size_t done, std::size_t all)> progress = {};
  std::function<bool()> interrupted = {};
};

/// Of the cases that have a fault.
std::vector<TrainedCase> score_trained(const std::vector<ScoreCase>&, const TrainedOptions&,
                                       const Components&, const Corpus&);

Json trained_json(const std::vector<TrainedCase>&);
/// A part of docs/scorecard.md.
std::string trained_markdown(const std::vector<TrainedCase>&, const TrainedOptions&);

/// The first step at which the mean of `window` losses is further from `twin`'s than three times what two healthy runs of
/// different seeds are apart, and stays so for `window` steps; empty: never. Losses by step, as long as one another.
std::optional<std::int64_t> leaves_band(const std::vector<double>& loss, const std::vector<double>& twin,
                                        const std::vector<double>& other, std::size_t window = 20);

}  // namespace plumb
