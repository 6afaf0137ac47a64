// Gated feed-forward: out(silu(gate(x)) * in(x)). Shazeer 2020, arXiv 2002.05202, eq. 6.
// Shapes: x (B, T, C), hidden (B, T, F). Gradients as the shared op's sinks say (ffn.cpp).
#include "plumb/ffn/ffn.h"

namespace plumb {
namespace {

template <class R>
using Swiglu = GatedMlp<R, Act::silu>;

}  // namespace

namespace entries::ffn {
extern constexpr FfnEntry swiglu = ffn_entry<Swiglu>({
    .name = "swiglu",
    .purpose = "A gate of silu: Llama's, and of most models since.",
    .formula = "out(silu(gate(x)) * in(x))",
    .paper = "Shazeer 2020, arXiv 2002.05202, eq. 6",
    .pitfalls = "Three matrices, not two: at equal parameters d_ff is 2/3 of an ungated one's "
                "(model.ffn.eight_thirds).",
    .fields = "model.d_ff, model.ffn.bias, model.ffn.eight_thirds, model.ffn.multiple_of",
});
}  // namespace entries::ffn

}  // namespace plumb
