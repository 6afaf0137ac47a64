// The stored matrix is the one that is multiplied.
#include "plumb/weight/weight.h"

namespace plumb {
namespace {

template <class R>
struct Plain final : WeightParam<R> {
  explicit Plain(const DecoderSpec&) {}
};

}  // namespace

namespace entries::weight {
extern constexpr WeightEntry plain = weight_entry<Plain>({
    .name = "plain",
    .purpose = "The matrix as it is stored.",
    .formula = "W",
    .paper = "",
    .pitfalls = "",
});
}  // namespace entries::weight

}  // namespace plumb
