// Gated feed-forward: out(gelu(gate(x)) * in(x)), erf form. Shazeer 2020, arXiv 2002.05202, eq. 6.
// Shapes: x (B, T, C), hidden (B, T, F). Gradients as the shared op's sinks say (ffn.cpp).
#include "plumb/ffn/ffn.h"

namespace plumb {
namespace {

template <class R>
using Geglu = GatedMlp<R, Act::gelu>;

}  // namespace

namespace entries::ffn {
extern constexpr FfnEntry geglu = ffn_entry<Geglu>({
    .name = "geglu",
    .purpose = "A gate of gelu: T5 1.1's.",
    .formula = "out(gelu(gate(x)) * in(x))",
    .paper = "Shazeer 2020, arXiv 2002.05202, eq. 6",
    .pitfalls = "Gemma's gate has gelu's tanh form: model.ffn.kind = 'geglu_tanh'.",
    .fields = "model.d_ff, model.ffn.bias, model.ffn.eight_thirds, model.ffn.multiple_of",
});
}  // namespace entries::ffn

}  // namespace plumb
