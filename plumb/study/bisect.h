// Which of the settings that differ between a good and a bad config hurts: paired short runs from the same seeds, each setting
// in and out by itself, or by halves where they are many (delta debugging, Zeller & Hildebrandt 2002, doi:10.1109/32.988498).
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "plumb/base/json.h"
#include "plumb/data/text_corpus.h"
#include "plumb/study/confirm.h"
#include "plumb/study/differing.h"

namespace plumb {

struct BisectOptions {
  std::int64_t steps = 200;  // of each run; warm-up and schedule shrink with them
  int seeds = 3;             // runs of each config, from the good one's seed on
  int at_a_time = 0;         // runs side by side, a thread each; 0: as many as there are processors
  std::function<void(int run, int runs)> progress =
      {};  // before a run; `runs` may grow where halves are searched
  std::function<bool()> interrupted = {};
};

struct Verdict {
  Suspect suspect;
  std::optional<PairedDifference> alone;  // good with these as the bad config has them, less good
  std::optional<PairedDifference> heals;  // bad with these as the good config has them, less bad
  std::string verdict;  // "hurts alone", "heals alone", "only together with …", "helps", "no effect seen"
};

struct Bisection {
  std::vector<double> good, bad;  // validation losses by seed, nats a token; HUGE_VAL: the run broke
  PairedDifference difference;    // bad less good
  bool worse = false;
  std::vector<Verdict> settings;  // empty where it is not worse
  std::optional<PairedDifference>
      rest;  // by halves: good with all that were cleared as the bad config has them, less good
  int runs = 0;
  std::string because;
};

/// Losses of configs, each from every seed; in order.
using ShortRuns = std::function<std::vector<std::vector<double>>(const std::vector<Config>&)>;

/// How many settings are tried one by one; of more, halves are.
inline constexpr std::size_t most_singles = 6;

/// Runs that are to be expected: an exact number for singles, about what one culprit takes for halves.
int runs_expected(const Differing&, const BisectOptions&);

/// The search, whatever runs the configs (already shortened).
Bisection bisect(const Differing&, const BisectOptions&, const Components&, const ShortRuns&);
/// The same by training. Error 130 when interrupted.
Bisection bisect(const Differing&, const BisectOptions&, const Components&, const Corpus&);

/// For people, at most `width` columns.
std::string bisection_text(const Bisection&, const Differing&, const BisectOptions&, std::size_t width);
/// What is compared and how, before the first run.
std::string differing_text(const Differing&, std::size_t width);
Json bisection_json(const Bisection&, const Differing&, const BisectOptions&);

}  // namespace plumb
