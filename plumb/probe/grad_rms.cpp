// The gradient of the mean loss of each block's weight matrices, before clipping: root of the mean square,
// and the share of elements that are lost in Adam's epsilon. Where the rms comes near it, learning stops
// (Wortsman et al. 2023, arXiv 2309.14322).
#include <cmath>

#include "plumb/probe/probe.h"

namespace plumb {
namespace {

// Kingma & Ba 2014, arXiv 1412.6980, and the default of train.adam_eps, which a probe does not see: it knows
// the model alone. A fixed one keeps runs comparable.
constexpr double adam_eps = 1e-8;

struct GradRms {
  struct Part {
    double squares = 0, below = 0;
    std::int64_t count = 0;
  };
  static void add(Part& p, float, float, float grad) {
    const double g = static_cast<double>(grad);
    p.squares += g * g;
    p.below += std::abs(g) < adam_eps ? 1 : 0;
    ++p.count;
  }
  static double mean(double sum, const Part& p) { return sum / static_cast<double>(p.count); }
  static constexpr Number<Part> numbers[] = {
      {"weight_grad_rms", [](const Part& p) { return std::sqrt(mean(p.squares, p)); }},
      {"grads_below_eps",
       [](const Part& p) {
         return std::isnan(p.squares) ? std::numeric_limits<double>::quiet_NaN() : mean(p.below, p);
       }},
  };
};

}  // namespace

namespace entries::probe {
extern constexpr ProbeEntry grad_rms = probe_entry<UpdateProbe<GradRms>>(
    "grad_rms", "rms of the gradient of a block's weight matrices, and the share below Adam's epsilon");
}  // namespace entries::probe

}  // namespace plumb
