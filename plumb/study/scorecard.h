// How often the diagnosis is right: faults put into models that are drawn at random, and healthy models drawn from the same
// urn. Nothing is trained: each is looked into before training, as `plumb doctor CONFIG` does.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "plumb/config/config.h"
#include "plumb/data/text_corpus.h"
#include "plumb/doctor/doctor.h"
#include "plumb/model/components.h"

namespace plumb {

/// What may be named for a fault, the best first: fixed before thresholds were. Empty: it cannot be seen before training.
std::vector<std::string> accepted_causes(std::string_view fault);

struct ScoreCase {
  std::string fault = {};  // empty: healthy
  double strength = 1;
  std::vector<std::string> set = {};    // what was drawn, as --set has it
  std::vector<std::string> named = {};  // causes, most probable first
  std::string verdict = {};
  bool first() const;     // the first one named is accepted
  bool in_three() const;  // one of the first three is
};

struct ScoreOptions {
  std::string salt = "plumb";  // another salt draws other cases
  int per_fault = 3, healthy = 100;
  int at_a_time = 0;  // cases side by side; 0: as many as there are processors
  std::function<void(std::size_t done, std::size_t all)> progress = {};
  std::function<bool()> interrupted = {};
};

/// The config of a case, its fault included.
Config config_for(const ScoreCase&);

/// Every case, faults in the order of their table.
std::vector<ScoreCase> score(const ScoreOptions&, const Components&, const Corpus&);

/// The lower and upper end of Wilson's 95 % interval of k of n (Wilson 1927, JASA 22).
std::pair<double, double> wilson(std::int64_t k, std::int64_t n);

/// k of n, with Wilson's interval.
Json rate_json(std::int64_t k, std::int64_t n);
std::string rate_text(std::int64_t k, std::int64_t n);

Json score_json(const std::vector<ScoreCase>&, const ScoreOptions&);
/// docs/scorecard.md.
std::string score_markdown(const std::vector<ScoreCase>&, const ScoreOptions&);

}  // namespace plumb
