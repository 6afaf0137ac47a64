// Standard deviation of the mean loss's gradient at each block's output, before clipping.
#include "plumb/probe/probe.h"

namespace plumb {
namespace {

struct Gradient {
  static constexpr std::string_view metric = "grad_std", point = "blocks.{i}.out";
  static constexpr Dir dir = Dir::backward;
  static Moments measure(View<const float> v, std::int64_t) { return moments(v); }
  static double value(const Moments& m) { return m.std(); }
};

}  // namespace

namespace entries::probe {
extern constexpr ProbeEntry gradient =
    probe_entry<PointProbe<Gradient>>("gradient", "std of the gradient at blocks.{i}.out");
}  // namespace entries::probe

}  // namespace plumb
