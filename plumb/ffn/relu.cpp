// Feed-forward with relu: out(max(in(x), 0)). Vaswani et al. 2017, arXiv 1706.03762, eq. 2.
// Shapes: x (B, T, C), hidden (B, T, F). Gradients as the shared op's sinks say (ffn.cpp).
#include "plumb/ffn/ffn.h"

namespace plumb {
namespace {

template <class R>
using Relu = Mlp<R, Act::relu>;

}  // namespace

namespace entries::ffn {
extern constexpr FfnEntry relu = ffn_entry<Relu>({
    .name = "relu",
    .purpose = "The first Transformer's rectifier: sparse, cheap, and OPT's.",
    .formula = "out(max(in(x), 0))",
    .paper = "Vaswani et al. 2017, arXiv 1706.03762, eq. 2",
    .pitfalls = "A slot whose pre-activation is never positive gets no gradient and stays dead.",
    .fields = "model.d_ff, model.ffn.bias, model.ffn.eight_thirds, model.ffn.multiple_of",
});
}  // namespace entries::ffn

}  // namespace plumb
