// Mean KL(P_{t+1} || P_t), nats, of the predictions at adjacent positions of a sequence. Near 0: the model
// says the same everywhere.
#include "plumb/base/error.h"
#include "plumb/probe/probe.h"

namespace plumb {
namespace {

struct AdjacentKl {
  static constexpr std::string_view metric = "adjacent_kl", point = "logits";
  static constexpr Dir dir = Dir::forward;
  static Mean measure(View<const float> logits, std::int64_t block) {
    if (logits.rows % block != 0)
      fail("[adjacent_kl] {} rows are not whole sequences of {}; make the probe for the plan's block",
           logits.rows, block);
    Mean mean;
    for (std::int64_t at = 0; at < logits.rows; at += block) mean.merge(adjacent_kl(logits.slice(at, block)));
    return mean;
  }
  static double value(const Mean& m) { return m.value(); }
};

}  // namespace

namespace entries::probe {
extern constexpr ProbeEntry adjacent_kl = probe_entry<PointProbe<AdjacentKl>>(
    "adjacent_kl", "mean KL divergence of adjacent positions' predictions, in nats");
}  // namespace entries::probe

}  // namespace plumb
