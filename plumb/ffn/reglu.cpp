// Gated feed-forward: out(max(gate(x), 0) * in(x)). Shazeer 2020, arXiv 2002.05202, eq. 6.
// Shapes: x (B, T, C), hidden (B, T, F). Gradients as the shared op's sinks say (ffn.cpp).
#include "plumb/ffn/ffn.h"

namespace plumb {
namespace {

template <class R>
using Reglu = GatedMlp<R, Act::relu>;

}  // namespace

namespace entries::ffn {
extern constexpr FfnEntry reglu = ffn_entry<Reglu>({
    .name = "reglu",
    .purpose = "A gate of relu: sparse, and the plainest of the gated kinds.",
    .formula = "out(max(gate(x), 0) * in(x))",
    .paper = "Shazeer 2020, arXiv 2002.05202, eq. 6",
    .pitfalls = "A gate that is never positive closes its slot for good, as a dead relu.",
    .fields = "model.d_ff, model.ffn.bias, model.ffn.eight_thirds, model.ffn.multiple_of",
});
}  // namespace entries::ffn

}  // namespace plumb
