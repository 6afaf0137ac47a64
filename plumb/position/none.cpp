// No position code: attention sees a set, told apart only by the causal mask.
#include "plumb/position/position.h"

namespace plumb {
namespace {

template <class R>
struct NoPosition final : Position<R> {
  explicit NoPosition(const DecoderSpec&) {}
};

}  // namespace

namespace entries::position {
extern constexpr PositionEntry none = position_entry<NoPosition>({
    .name = "none",
    .purpose = "What order the causal mask alone tells a model: less than it needs, more than nothing.",
    .formula = "x",
    .paper = "Haviv et al. 2022, arXiv 2203.16634 (the causal mask alone lets a decoder count)",
    .pitfalls = "The first layer cannot tell orders of the same tokens apart.",
});
}  // namespace entries::position

}  // namespace plumb
