// Everything that is drawn at the start is drawn 100^s times as small: below sqrt(eps) norms no longer lift
// it.
#include <cmath>

#include "plumb/fault/drawn_times.h"

namespace plumb {
namespace {

template <class R>
struct InitTooSmall final : DrawnTimes<R> {
  InitTooSmall(const DecoderSpec&, double strength) : DrawnTimes<R>(std::pow(0.01, strength)) {}
};

}  // namespace

namespace entries::fault {
extern constexpr FaultEntry init_too_small = graph_fault<InitTooSmall>({
    .name = "init_too_small",
    .what = "all weights are drawn far too small",
    .strength = "100^strength times as small",
    .high = 6,
});
}  // namespace entries::fault

}  // namespace plumb
