// RMSNorm over the last axis. Zhang & Sennrich 2019, arXiv 1910.07467, eq. 4.
//
//   y = x r gamma,  r = 1 / sqrt(mean(x^2) + eps)
//   dx = r g - r^3 x mean(g x),  g = dy gamma
//
// Shapes: x, y (B, T, C); gamma (C); kept: r (B, T, 1). Gradients: dx, dgamma as their sinks say.
#include "plumb/kernel/narrow_norm.h"
#include "plumb/kernel/rows.h"
#include "plumb/norm/norm.h"

namespace plumb {
namespace {

template <class R>
class RmsNormOp final : public Op<R> {
 public:
  RmsNormOp(double eps, const Affine& a, Format reduce) : eps_(eps), a_(a), reduce_(reduce) {}
  OpInfo info() const override { return {.kind = "rms_norm"}; }

  void forward(Run<R>& r) const override {
    if constexpr (std::is_same_v<R, float>)
      if (reduce_ != Format::fp32)
        return narrow_norm_forward(reduce_, false, r.in(0), a_.gamma(r), {}, eps_, r.out(), {}, r.kept());
    rms_norm_forward(r.in(0), a_.gamma(r), eps_, r.out(), r.kept());
  }

  void backward(Run<R>& r) const override {
    rms_norm_backward(r.dout(), r.in(0), a_.gamma(r), View<const R>(r.kept()), r.din(0), a_.dgamma(r));
  }

 private:
  double eps_;
  Affine a_;
  Format reduce_;
};

template <class R>
class RmsNorm final : public Norm<R> {
 public:
  explicit RmsNorm(const DecoderSpec& s)
      : eps_(s.norm_eps), affine_(s, false), reduce_(reduction_format(s)) {}

  Value build(Builder<R>& b, Value x, const std::string& name, int layer) const override {
    const Shape shape = b.shape(x);
    Shape per_row = shape;
    per_row.dims.back() = Dim{};
    NodeSpec n{.name = name, .in = {x}, .out = {shape}, .kept = {per_row}};
    n.backward_reads_out = false;
    affine_.add_to(b, n, name, shape.dims.back(), layer);
    const Value y = b.node1(std::make_unique<RmsNormOp<R>>(eps_, affine_, reduce_), std::move(n));
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
extern constexpr NormEntry rms = norm_entry<RmsNorm>({
    .name = "rms",
    .purpose = "Layer norm without the mean, which is most of its effect for less work: Llama, Qwen, Gemma.",
    .formula = "y = x / sqrt(mean x^2 + eps) * gamma, over the features of each position",
    .paper = "Zhang & Sennrich 2019, arXiv 1910.07467",
    .pitfalls = "The mean stays in: a shared offset of the features is scaled, not removed. Gemma stores the "
                "gain as 1 + w "
                "(norm_gain = 'plus_one'): read as w, its checkpoints give a norm that is almost zero.",
    .fields = "model.norm_eps, model.norm_affine, model.norm_gain",
});
}  // namespace entries::norm

}  // namespace plumb
