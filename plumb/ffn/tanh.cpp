// Feed-forward with tanh: out(tanh(in(x))). LeCun et al. 1998, Efficient BackProp, section 4.4.
// Shapes: x (B, T, C), hidden (B, T, F). Gradients as the shared op's sinks say (ffn.cpp).
#include "plumb/ffn/ffn.h"

namespace plumb {
namespace {

template <class R>
using TanhMlp = Mlp<R, Act::tanh>;

}  // namespace

namespace entries::ffn {
extern constexpr FfnEntry tanh = ffn_entry<TanhMlp>({
    .name = "tanh",
    .purpose = "The bounded activation of the time before rectifiers: to see saturation.",
    .formula = "out(tanh(in(x)))",
    .paper = "LeCun, Bottou, Orr, Mueller 1998, Efficient BackProp, section 4.4",
    .pitfalls = "Saturates: beyond |x| = 4 the slope is below 1.4e-3, and a layer that drives it there stops "
                "learning.",
    .fields = "model.d_ff, model.ffn.bias, model.ffn.eight_thirds, model.ffn.multiple_of",
});
}  // namespace entries::ffn

}  // namespace plumb
