// Feed-forward with the tanh form of gelu, as in GPT-2 and Gemma. Hendrycks & Gimpel 2016, arXiv 1606.08415,
// section 2: 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).
// Shapes: x (B, T, C), hidden (B, T, F). Gradients as the shared op's sinks say (ffn.cpp).
#include "plumb/ffn/ffn.h"

namespace plumb {
namespace {

template <class R>
using GeluTanh = Mlp<R, Act::gelu_tanh>;

}  // namespace

namespace entries::ffn {
extern constexpr FfnEntry gelu_tanh = ffn_entry<GeluTanh>({
    .name = "gelu_tanh",
    .purpose = "Gelu's cheaper form: GPT-2's and Gemma's.",
    .formula = "out(gelu(in(x))), gelu(x) = x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))",
    .paper = "Hendrycks & Gimpel 2016, arXiv 1606.08415, section 2",
    .pitfalls =
        "Weights trained with this form want this form: the exact one differs by up to 5e-4 in each slot.",
    .fields = "model.d_ff, model.ffn.bias, model.ffn.eight_thirds, model.ffn.multiple_of",
});
}  // namespace entries::ffn

}  // namespace plumb
