// The residual stream after each block, in one pass: rms, mean, kurtosis and largest absolute value. Kurtosis
// far above a normal distribution's 3 says that few channels or positions carry most of the stream: outlier
// features (Dettmers et al. 2022, arXiv 2208.07339).
#include "plumb/probe/probe.h"

namespace plumb {
namespace {

struct Stream {
  static constexpr std::string_view point = "blocks.{i}.out";
  static constexpr Dir dir = Dir::forward;
  static Summary measure(View<const float> v, std::int64_t) { return summary(v); }
  static constexpr Number<Summary> numbers[] = {
      {"act_rms", [](const Summary& s) { return s.rms(); }},
      {"act_mean", [](const Summary& s) { return s.mean; }},
      {"act_kurtosis", [](const Summary& s) { return s.kurtosis(); }},
      {"act_max", [](const Summary& s) { return s.largest; }},
  };
};

}  // namespace

namespace entries::probe {
extern constexpr ProbeEntry stream =
    probe_entry<PointProbe<Stream>>("stream", "rms, mean, kurtosis and largest value of blocks.{i}.out");
}  // namespace entries::probe

}  // namespace plumb
