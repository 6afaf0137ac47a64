// Few decoders in which every two entries of different families meet, where any decoder lets them.
#include "tests/conformance/covering.h"

#include <algorithm>
#include <map>
#include <set>

#include "plumb/base/error.h"
#include "plumb/base/rng.h"

namespace plumb::conformance {
namespace {

using Choice = std::vector<std::size_t>;  // an entry of each family
struct Pair {
  std::size_t f, i, g, j;  // entry i of family f, entry j of family g > f
  auto operator<=>(const Pair&) const = default;
};

std::vector<Pair> pairs_of(const Choice& c) {
  std::vector<Pair> all;
  for (std::size_t f = 0; f < c.size(); ++f)
    for (std::size_t g = f + 1; g < c.size(); ++g) all.push_back({f, c[f], g, c[g]});
  return all;
}

}  // namespace

Covering covering(const Components& c) {
  const auto families = family_names(c);
  const auto named = [&](const Choice& at) {
    Entries wanted;
    for (std::size_t f = 0; f < at.size(); ++f)
      wanted.emplace_back(families[f].first, families[f].second[at[f]]);
    return wanted;
  };
  std::set<Pair> open;
  for (std::size_t f = 0; f < families.size(); ++f)
    for (std::size_t g = f + 1; g < families.size(); ++g)
      for (std::size_t i = 0; i < families[f].second.size(); ++i)
        for (std::size_t j = 0; j < families[g].second.size(); ++j) open.insert({f, i, g, j});

  const Adapter adapted(c);
  Covering all;
  const Stream draw = stream(11, "conformance/covering");
  std::uint64_t drawn = 0;
  while (!open.empty()) {
    const Pair first = *open.begin();
    const auto text = [&](std::size_t f, std::size_t i) {
      return families[f].first + " '" + families[f].second[i] + "'";
    };
    std::string why;
    std::optional<DecoderSpec> best;
    Choice best_choice;
    std::size_t best_gain = 0;
    if (!adapted_to({{families[first.f].first, families[first.f].second[first.i]},
                     {families[first.g].first, families[first.g].second[first.j]}},
                    c, &why)) {
      all.refused.push_back(text(first.f, first.i) + " with " + text(first.g, first.j) + ": " + why);
      open.erase(first);
      continue;
    }
    // Of some random completions that a decoder accepts, the one that covers most.
    for (int tried = 0, accepted = 0; tried < 400 && accepted < 12; ++tried) {
      Choice at(families.size());
      for (std::size_t f = 0; f < at.size(); ++f)
        at[f] = draw.below(families[f].second.size(), 0, 0, drawn++);
      at[first.f] = first.i, at[first.g] = first.j;
      const auto covered = pairs_of(at);
      const auto gain = static_cast<std::size_t>(
          std::ranges::count_if(covered, [&](const Pair& p) { return open.contains(p); }));
      if (gain <= best_gain) continue;
      if (auto spec = adapted(named(at)))
        best = std::move(spec), best_choice = at, best_gain = gain, ++accepted;
    }
    if (!best)
      fail("[covering] {} and {} fit a decoder, but none of 400 with other entries drawn around them",
           text(first.f, first.i), text(first.g, first.j));
    for (const Pair& p : pairs_of(best_choice)) open.erase(p);
    std::string name;
    for (const auto& [family, entry] : named(best_choice))
      name += (name.empty() ? "" : ", ") + family + " " + entry;
    all.cells.push_back({"cell", name, "", *best, &c});
  }
  return all;
}

}  // namespace plumb::conformance
