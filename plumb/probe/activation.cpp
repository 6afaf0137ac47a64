// Standard deviation of the residual stream after each block, over all its elements.
#include "plumb/probe/probe.h"

namespace plumb {
namespace {

struct Activation {
  static constexpr std::string_view metric = "act_std", point = "blocks.{i}.out";
  static constexpr Dir dir = Dir::forward;
  static Moments measure(View<const float> v, std::int64_t) { return moments(v); }
  static double value(const Moments& m) { return m.std(); }
};

}  // namespace

namespace entries::probe {
extern constexpr ProbeEntry activation =
    probe_entry<PointProbe<Activation>>("activation", "std of blocks.{i}.out");
}  // namespace entries::probe

}  // namespace plumb
