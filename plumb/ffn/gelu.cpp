// Feed-forward with gelu: out(gelu(in(x))), gelu(x) = x Phi(x). Hendrycks & Gimpel 2016, arXiv 1606.08415.
// Shapes: x (B, T, C), hidden (B, T, F). Gradients as the shared op's sinks say (ffn.cpp).
#include "plumb/ffn/ffn.h"
#include "plumb/kernel/rows.h"

namespace plumb {
namespace {

template <class R>
class Gelu final : public Ffn<R> {
 public:
  explicit Gelu(const DecoderSpec& s) : spec_(s) {}
  Value build(Builder<R>& b, Value x, const std::string& name, int layer) const override {
    return mlp(b, x, spec_, Activation<R>{"gelu", gelu_forward<R>, gelu_backward<R>}, name, layer);
  }

 private:
  DecoderSpec spec_;
};

}  // namespace

namespace entries::ffn {
extern constexpr FfnEntry gelu = ffn_entry<Gelu>({
    .name = "gelu",
    .formula = "out(gelu(in(x))), gelu(x) = x Phi(x)",
    .paper = "Hendrycks & Gimpel 2016, arXiv 1606.08415",
    .pitfalls = "The exact erf form; the tanh form differs by up to 5e-4 and is another setting.",
    .fields = "model.d_ff, model.ffn.bias",
});
}  // namespace entries::ffn

}  // namespace plumb
