// Gated feed-forward with gelu's tanh form, as in Gemma: out(gelu(gate(x)) * in(x)). Shazeer 2020, arXiv
// 2002.05202, eq. 6; Gemma Team 2024, arXiv 2403.08295, section 2. Shapes: x (B, T, C), hidden (B, T, F).
// Gradients as the shared op's sinks say (ffn.cpp).
#include "plumb/ffn/ffn.h"

namespace plumb {
namespace {

template <class R>
using GegluTanh = GatedMlp<R, Act::gelu_tanh>;

}  // namespace

namespace entries::ffn {
extern constexpr FfnEntry geglu_tanh = ffn_entry<GegluTanh>({
    .name = "geglu_tanh",
    .purpose = "A gate of gelu's tanh form: Gemma's.",
    .formula = "out(gelu(gate(x)) * in(x)), gelu in its tanh form",
    .paper = "Shazeer 2020, arXiv 2002.05202, eq. 6; Gemma Team 2024, arXiv 2403.08295",
    .pitfalls = "Its product of two projections grows with the square of its input: large activations come "
                "from here first.",
    .fields = "model.d_ff, model.ffn.bias, model.ffn.eight_thirds, model.ffn.multiple_of",
});
}  // namespace entries::ffn

}  // namespace plumb
