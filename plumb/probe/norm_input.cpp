// Standard deviation of what each block's first norm reads, wherever its place is. Compare with
// sqrt(norm_eps).
#include "plumb/probe/probe.h"

namespace plumb {
namespace {

struct NormInput {
  static constexpr std::string_view metric = "norm_in_std", point = "blocks.{i}.attn.norm_in";
  static constexpr Dir dir = Dir::forward;
  static Moments measure(View<const float> v, std::int64_t) { return moments(v); }
  static double value(const Moments& m) { return m.std(); }
};

}  // namespace

namespace entries::probe {
extern constexpr ProbeEntry norm_input =
    probe_entry<PointProbe<NormInput>>("norm_input", "std of blocks.{i}.attn.norm_in");
}  // namespace entries::probe

}  // namespace plumb
