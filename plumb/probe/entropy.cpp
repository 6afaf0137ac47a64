// Mean of H / ln(visible keys) over attention rows: 1 where attention is spread evenly, 0 where it sees one
// key only. A row that has one key to see can only have H = 0 and is left out.
#include "plumb/probe/probe.h"

namespace plumb {
namespace {

struct Entropy {
  static constexpr std::string_view metric = "attn_entropy", point = "blocks.{i}.attn.entropy";
  static constexpr Dir dir = Dir::forward;
  static Mean measure(View<const float> v, std::int64_t block, std::int64_t window) {
    return normalised_entropy(v, block, window);
  }
  static double value(const Mean& m) { return m.value(); }
};

}  // namespace

namespace entries::probe {
extern constexpr ProbeEntry entropy = probe_entry<PointProbe<Entropy>>(
    "entropy", "mean entropy of the attention weights over its largest possible");
}  // namespace entries::probe

}  // namespace plumb
