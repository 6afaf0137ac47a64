// Feed-forward with silu (swish): out(silu(in(x))), silu(x) = x / (1 + e^-x). Elfwing et al. 2017, arXiv
// 1702.03118. Shapes: x (B, T, C), hidden (B, T, F). Gradients as the shared op's sinks say (ffn.cpp).
#include "plumb/ffn/ffn.h"

namespace plumb {
namespace {

template <class R>
using Silu = Mlp<R, Act::silu>;

}  // namespace

namespace entries::ffn {
extern constexpr FfnEntry silu = ffn_entry<Silu>({
    .name = "silu",
    .purpose = "A smooth rectifier that dips below 0; the activation inside swiglu.",
    .formula = "out(silu(in(x))), silu(x) = x / (1 + e^-x)",
    .paper = "Elfwing, Uchibe, Doya 2017, arXiv 1702.03118",
    .pitfalls =
        "Not monotone: least -0.278 at x = -1.278. Kaiming's sqrt 2 is relu's; silu's own gain is 1.79.",
    .fields = "model.d_ff, model.ffn.bias, model.ffn.eight_thirds, model.ffn.multiple_of",
});
}  // namespace entries::ffn

}  // namespace plumb
