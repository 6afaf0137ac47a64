// The share of the elements of each block's weight matrices that an update changed. An update below half of a
// weight's last digit is lost: in 16-bit weights most are at usual learning rates (Zamirai et al. 2020, arXiv
// 2010.06192).
#include <cmath>

#include "plumb/probe/probe.h"

namespace plumb {
namespace {

struct UpdatesKept {
  static constexpr std::string_view metric = "updates_kept";
  struct Part {
    double sum = 0;  // of the weights after it: NaN when one is
    std::int64_t count = 0, changed = 0;
  };
  static void add(Part& p, float before, float after, float) {
    p.sum += std::abs(static_cast<double>(after));
    p.changed += before != after;
    ++p.count;
  }
  static double value(const Part& p) {
    return std::isnan(p.sum) ? std::numeric_limits<double>::quiet_NaN()
                             : static_cast<double>(p.changed) / static_cast<double>(p.count);
  }
};

}  // namespace

namespace entries::probe {
extern constexpr ProbeEntry updates_kept = probe_entry<UpdateProbe<UpdatesKept>>(
    "updates_kept", "share of a block's weight elements that the update changed");
}  // namespace entries::probe

}  // namespace plumb
