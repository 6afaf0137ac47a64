// Everything that is drawn at the start is drawn 10^s times as large.
#include <cmath>

#include "plumb/fault/drawn_times.h"

namespace plumb {
namespace {

template <class R>
struct InitTooLarge final : DrawnTimes<R> {
  InitTooLarge(const DecoderSpec&, double strength) : DrawnTimes<R>(std::pow(10.0, strength)) {}
};

}  // namespace

namespace entries::fault {
extern constexpr FaultEntry init_too_large = graph_fault<InitTooLarge>({
    .name = "init_too_large",
    .what = "all weights are drawn far too large",
    .strength = "10^strength times as large",
    .high = 6,
});
}  // namespace entries::fault

}  // namespace plumb
