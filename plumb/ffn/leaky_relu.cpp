// Feed-forward with leaky relu: x above 0, init.leaky_slope x below. Maas, Hannun, Ng 2013, Rectifier
// nonlinearities improve neural network acoustic models, eq. 2.
// Shapes: x (B, T, C), hidden (B, T, F). Gradients as the shared op's sinks say (ffn.cpp).
#include "plumb/ffn/ffn.h"

namespace plumb {
namespace {

template <class R>
using LeakyRelu = Mlp<R, Act::leaky_relu>;

}  // namespace

namespace entries::ffn {
extern constexpr FfnEntry leaky_relu = ffn_entry<LeakyRelu>({
    .name = "leaky_relu",
    .purpose = "A rectifier whose slots cannot die: a small slope stays below 0.",
    .formula = "out(act(in(x))), act(x) = x above 0, init.leaky_slope x below",
    .paper = "Maas, Hannun, Ng 2013, Rectifier nonlinearities improve neural network acoustic models, eq. 2",
    .pitfalls = "A slope of 1 is no activation at all: the network is then linear.",
    .fields = "model.d_ff, model.ffn.bias, model.ffn.eight_thirds, model.ffn.multiple_of, init.leaky_slope",
});
}  // namespace entries::ffn

}  // namespace plumb
