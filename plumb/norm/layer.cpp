// LayerNorm over the last axis. Ba, Kiros, Hinton 2016, arXiv 1607.06450, eqs. 3-4.
//
//   y = (x - mean) / sqrt(var + eps) * gamma + beta      biased variance, eps inside the root
//   dx = (g - mean(g) - xhat mean(g xhat)) / sqrt(var + eps),   g = dy gamma
//
// Shapes: x, y (B, T, C); gamma, beta (C); kept: mean, 1/std (B, T, 1).
// Gradients: dx, dgamma, dbeta as their sinks say; inside one shard dgamma and dbeta sum over rows.
#include "plumb/kernel/narrow_norm.h"
#include "plumb/kernel/rows.h"
#include "plumb/norm/norm.h"

namespace plumb {
namespace {

template <class R>
class LayerNormOp final : public Op<R> {
 public:
  LayerNormOp(double eps, const Affine& a, Format reduce) : eps_(eps), a_(a), reduce_(reduce) {}
  OpInfo info() const override { return {.kind = "layer_norm"}; }

  void forward(Run<R>& r) const override {
    if constexpr (std::is_same_v<R, float>)
      if (reduce_ != Format::fp32)
        return narrow_norm_forward(reduce_, true, r.in(0), a_.gamma(r), a_.beta(r), eps_, r.out(), r.kept(0),
                                   r.kept(1));
    layer_norm_forward(r.in(0), a_.gamma(r), a_.beta(r), eps_, r.out(), r.kept(0), r.kept(1));
  }

  void backward(Run<R>& r) const override {
    layer_norm_backward(r.dout(), r.in(0), a_.gamma(r), View<const R>(r.kept(0)), View<const R>(r.kept(1)),
                        r.din(0), a_.dgamma(r), a_.dbeta(r));
  }

 private:
  double eps_;
  Affine a_;
  Format reduce_;
};

template <class R>
class LayerNorm final : public Norm<R> {
 public:
  explicit LayerNorm(const DecoderSpec& s) : eps_(s.norm_eps), affine_(s), reduce_(reduction_format(s)) {}

  Value build(Builder<R>& b, Value x, const std::string& name, int layer) const override {
    const Shape shape = b.shape(x);
    Shape per_row = shape;
    per_row.dims.back() = Dim{};
    NodeSpec n{.name = name, .in = {x}, .out = {shape}, .kept = {per_row, per_row}};
    n.backward_reads_out = false;
    affine_.add_to(b, n, name, shape.dims.back(), layer);
    const Value y = b.node1(std::make_unique<LayerNormOp<R>>(eps_, affine_, reduce_), std::move(n));
    b.expected_var(y, 1);
    return y;
  }

 private:
  double eps_;
  Affine affine_;
  Format reduce_;
};

}  // namespace

namespace entries::norm {
extern constexpr NormEntry layer = norm_entry<LayerNorm>({
    .name = "layer",
    .purpose = "Activations at unit scale whatever the depth, one position at a time: the norm of GPT-2 and "
               "BERT.",
    .formula = "y = (x - mean x) / sqrt(var x + eps) * gamma + beta, over the features of each position",
    .paper = "Ba, Kiros, Hinton 2016, arXiv 1607.06450",
    .pitfalls = "An eps near the input's variance silences small signals; watch the norm's input std against "
                "sqrt(eps).",
    .fields = "model.norm_eps, model.norm_affine, model.norm_bias, model.norm_gain",
});
}  // namespace entries::norm

}  // namespace plumb
