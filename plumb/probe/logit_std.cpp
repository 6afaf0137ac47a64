// Standard deviation of the logits over all positions and classes of the batch.
#include "plumb/probe/probe.h"

namespace plumb {
namespace {

struct LogitStd {
  static constexpr std::string_view metric = "logit_std", point = "logits";
  static constexpr Dir dir = Dir::forward;
  static Moments measure(View<const float> v, std::int64_t) { return moments(v); }
  static double value(const Moments& m) { return m.std(); }
};

}  // namespace

namespace entries::probe {
extern constexpr ProbeEntry logit_std = probe_entry<PointProbe<LogitStd>>("logit_std", "std of the logits");
}  // namespace entries::probe

}  // namespace plumb
