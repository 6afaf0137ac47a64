// The way around a sub-layer is missing: y = (1 - strength) x + f(x).
#include "plumb/fault/fault.h"

namespace plumb {
namespace {

template <class R>
struct NoResidual final : ScaledAt<R> {
  NoResidual(const DecoderSpec&, double strength) : ScaledAt<R>("blocks.", ".skip", 1 - strength) {}
};

}  // namespace

namespace entries::fault {
extern constexpr FaultEntry no_residual = graph_fault<NoResidual>({
    .name = "no_residual",
    .what = "no identity path around the sub-layers",
    .strength = "the share of the skip that is lost",
});
}  // namespace entries::fault

}  // namespace plumb
