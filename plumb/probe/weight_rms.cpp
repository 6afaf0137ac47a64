// Root of the mean square of each block's weight matrices, before the step's update.
#include <cmath>

#include "plumb/probe/probe.h"

namespace plumb {
namespace {

struct WeightRms {
  static constexpr std::string_view metric = "weight_rms";
  struct Part {
    double squares = 0;
    std::int64_t count = 0;
  };
  static void add(Part& p, float before, float, float) {
    p.squares += static_cast<double>(before) * static_cast<double>(before);
    ++p.count;
  }
  static double value(const Part& p) { return std::sqrt(p.squares / static_cast<double>(p.count)); }
};

}  // namespace

namespace entries::probe {
extern constexpr ProbeEntry weight_rms =
    probe_entry<UpdateProbe<WeightRms>>("weight_rms", "rms of a block's weight matrices");
}  // namespace entries::probe

}  // namespace plumb
