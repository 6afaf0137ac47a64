// LayerScale: y = x + lambda f(x), one learned gain a channel and a branch, small at the start. Touvron et
// al. 2021 (CaiT), arXiv 2103.17239, eq. 4 and section 3: 0.1 up to 18 layers, 1e-5 up to 24, 1e-6 beyond.
//
// Shapes: x, f(x), y (B, T, C); lambda (C), `blocks.i.attn.lambda`. Gradients: dx = dy; df = lambda dy;
// dlambda[c] = Σ dy f over the shard's rows, in double; each as its sink says.
#include <algorithm>

#include "plumb/kernel/rows.h"
#include "plumb/residual/residual.h"

namespace plumb {
namespace {

template <class R>
class ChannelGainOp final : public Op<R> {
 public:
  OpInfo info() const override { return {.kind = "layer_scale"}; }

  void forward(Run<R>& r) const override {
    const auto x = r.in(0), z = r.in(1), g = r.in(2);
    const auto y = r.out();
    for (std::int64_t i = 0; i < y.rows; ++i) {
      const R *from = x.row(i), *branch = z.row(i);
      R* to = y.row(i);
      for (std::int64_t j = 0; j < y.cols; ++j) to[j] = from[j] + g.data[j] * branch[j];
    }
  }

  void backward(Run<R>& r) const override {
    const auto dy = r.dout(), z = r.in(1), g = r.in(2);
    pass(1, dy, r.din(0));
    if (const auto dz = r.din(1))
      for (std::int64_t i = 0; i < dy.rows; ++i) {
        const R* from = dy.row(i);
        R* to = dz.v.row(i);
        for (std::int64_t j = 0; j < dy.cols; ++j)
          to[j] = g.data[j] * from[j] + (dz.overwrite ? R(0) : to[j]);
      }
    if (const auto dg = r.din(2)) add_column_dots(dy, z, dg, r.scratch());
  }

  std::size_t prepare(const Run<R>& r, ProductCache<R>&) override {
    return static_cast<std::size_t>(r.in(0).cols) * sizeof(double);
  }

 private:
  // dg[c] (+)= Σ over rows of dy z: row by row, so that the rows are read along memory.
  static void add_column_dots(View<const R> dy, View<const R> z, Sink<R> dg, void* scratch) {
    auto* sum = static_cast<double*>(scratch);
    std::fill_n(sum, dy.cols, 0.0);
    for (std::int64_t i = 0; i < dy.rows; ++i)
      for (std::int64_t j = 0; j < dy.cols; ++j)
        sum[j] += static_cast<double>(dy.row(i)[j]) * static_cast<double>(z.row(i)[j]);
    for (std::int64_t j = 0; j < dy.cols; ++j)
      dg.v.data[j] = static_cast<R>(sum[j] + (dg.overwrite ? 0 : static_cast<double>(dg.v.data[j])));
  }
};

template <class R>
class LayerScale final : public Residual<R> {
 public:
  explicit LayerScale(const DecoderSpec& s) : start_(s.layer_scale_init) {
    if (start_ == 0) start_ = s.n_layer <= 18 ? 0.1 : s.n_layer <= 24 ? 1e-5 : 1e-6;
  }

  Value leave(Builder<R>& b, Value shortcut, Value branch, const Site& s) override {
    require_same_shape("layer_scale", s.name(), b.shape(shortcut), b.shape(branch));
    shortcut = b.point(s.name() + ".skip", shortcut);
    branch = b.point(s.name() + ".write", branch);
    const Shape shape = b.shape(branch);
    const Value g = b.param({.name = s.name() + ".lambda",
                             .role = Role::residual_gain,
                             .shape = {shape.dims.back()},
                             .layer = s.layer},
                            {ParamRule::Kind::constant, start_});
    const Value y = b.node1(std::make_unique<ChannelGainOp<R>>(), {.name = s.name() + ".add",
                                                                   .in = {shortcut, branch, g},
                                                                   .out = {shape},
                                                                   .backward_reads_out = false});
    b.expected_var(y, b.expected_var(shortcut) + start_ * start_ * b.expected_var(branch));
    return y;
  }

 private:
  double start_;
};

}  // namespace

namespace entries::residual {
extern constexpr ResidualEntry layer_scale = residual_entry<LayerScale>({
    .name = "layer_scale",
    .purpose = "A learned gain a channel, almost 0 at the start: deep stacks begin as the identity.",
    .formula =
        "y = x + lambda f(x), lambda a channel's gain, 0.1 up to 18 layers, 1e-5 up to 24, 1e-6 beyond",
    .paper = "Touvron et al. 2021 (CaiT), arXiv 2103.17239",
    .pitfalls = "A gain of 1e-6 takes many steps to grow at a small learning rate: the stack acts shallow "
                "until then.",
    .fields = "model.layer_scale_init",
});
}  // namespace entries::residual

}  // namespace plumb
