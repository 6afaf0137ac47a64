// Feed-forward with gelu: out(gelu(in(x))), gelu(x) = x Phi(x). Hendrycks & Gimpel 2016, arXiv 1606.08415.
// Shapes: x (B, T, C), hidden (B, T, F). Gradients as the shared op's sinks say (ffn.cpp).
#include "plumb/ffn/ffn.h"

namespace plumb {
namespace {

template <class R>
using Gelu = Mlp<R, Act::gelu>;

}  // namespace

namespace entries::ffn {
extern constexpr FfnEntry gelu = ffn_entry<Gelu>({
    .name = "gelu",
    .purpose = "The smooth rectifier of BERT and of this lab's main model.",
    .formula = "out(gelu(in(x))), gelu(x) = x Phi(x)",
    .paper = "Hendrycks & Gimpel 2016, arXiv 1606.08415",
    .pitfalls = "The exact erf form; the tanh form differs by up to 5e-4 and is another setting.",
    .fields = "model.d_ff, model.ffn.bias, model.ffn.eight_thirds, model.ffn.multiple_of",
});
}  // namespace entries::ffn

}  // namespace plumb
