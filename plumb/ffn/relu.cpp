// Feed-forward with relu: out(max(in(x), 0)). Vaswani et al. 2017, arXiv 1706.03762, eq. 2.
// Shapes: x (B, T, C), hidden (B, T, F). Gradients as the shared op's sinks say (ffn.cpp).
#include "plumb/ffn/ffn.h"
#include "plumb/kernel/rows.h"

namespace plumb {
namespace {

template <class R>
class Relu final : public Ffn<R> {
 public:
  explicit Relu(const DecoderSpec& s) : spec_(s) {}
  Value build(Builder<R>& b, Value x, const std::string& name, int layer) const override {
    return mlp(b, x, spec_, Activation<R>{"relu", relu_forward<R>, relu_backward<R>}, name, layer);
  }

 private:
  DecoderSpec spec_;
};

}  // namespace

namespace entries::ffn {
extern constexpr FfnEntry relu = ffn_entry<Relu>({
    .name = "relu",
    .formula = "out(max(in(x), 0))",
    .paper = "Vaswani et al. 2017, arXiv 1706.03762, eq. 2",
    .pitfalls = "A slot whose pre-activation is never positive gets no gradient and stays dead.",
    .fields = "model.d_ff, model.ffn.bias",
});
}  // namespace entries::ffn

}  // namespace plumb
