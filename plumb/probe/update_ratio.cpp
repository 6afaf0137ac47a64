// How far a step moves each block's weight matrices: ||after - before|| / ||before||, Euclidean norms over
// all of them.
#include <cmath>

#include "plumb/probe/probe.h"

namespace plumb {
namespace {

struct UpdateRatio {
  static constexpr std::string_view metric = "update_ratio";
  struct Part {
    double moved = 0, size = 0;  // sums of squares
    std::int64_t count = 0;
  };
  static void add(Part& p, float before, float after, float) {
    const double b = static_cast<double>(before), d = static_cast<double>(after) - b;
    p.moved += d * d;
    p.size += b * b;
    ++p.count;
  }
  static double value(const Part& p) { return std::sqrt(p.moved / p.size); }
};

}  // namespace

namespace entries::probe {
extern constexpr ProbeEntry update_ratio = probe_entry<UpdateProbe<UpdateRatio>>(
    "update_ratio", "norm of the update of a block's weight matrices over their norm");
}  // namespace entries::probe

}  // namespace plumb
