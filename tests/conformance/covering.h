// A covering array of strength 2 over all families of components.
#pragma once
#include <map>
#include <optional>

#include "tests/conformance/harness.h"

namespace plumb::conformance {

struct Covering {
  std::vector<Subject> cells;  // small decoders; every pair of entries that any decoder accepts is in one
  std::vector<std::string> refused;  // the other pairs, each with the reason that the tables give
};
Covering covering(const Components&);

/// The families in a fixed order, each with its entries.
std::vector<std::pair<std::string, std::vector<std::string>>> family_names(const Components&);

using Entries = std::vector<std::pair<std::string, std::string>>;  // family, name

/// The plain small decoder with the fewest changes after which it accepts all of these; otherwise nothing,
/// and why not in `why_not`.
std::optional<DecoderSpec> adapted_to(const Entries&, const Components&, std::string* why_not = nullptr);

/// The same with the changes that each of them takes alone, and no search: many may be tried.
class Adapter {
 public:
  explicit Adapter(const Components&);
  std::optional<DecoderSpec> operator()(const Entries&) const;

 private:
  const Components& c_;
  std::map<std::pair<std::string, std::string>, unsigned> alone_;
};

/// Five steps in float keep the losses of five steps in double, from the same numbers. `worst`: the largest
/// difference, relative to a loss of at least 1. Up to the step in which a token is given to other experts, if any.
std::string check_five_steps(const Subject&, double* worst = nullptr);

/// Two hundred steps of Adam at 0.005 from its own start on a text that repeats four symbols: the last
/// cross-entropy over the text's unigram entropy, ln 4. Below 1 it has learned from context.
double learned(const Subject&);

}  // namespace plumb::conformance
