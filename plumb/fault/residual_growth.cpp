// Each write is multiplied by 1 + 9 s, without anything that damps it with depth.
#include "plumb/fault/fault.h"

namespace plumb {
namespace {

template <class R>
struct ResidualGrowth final : ScaledAt<R> {
  ResidualGrowth(const DecoderSpec&, double strength) : ScaledAt<R>("blocks.", ".write", 1 + 9 * strength) {}
};

}  // namespace

namespace entries::fault {
extern constexpr FaultEntry residual_growth = graph_fault<ResidualGrowth>({
    .name = "residual_growth",
    .what = "the writes are far too large: the stream grows with depth",
    .strength = "each write is multiplied by 1 + 9 strength",
    .high = 1000,
});
}  // namespace entries::fault

}  // namespace plumb
