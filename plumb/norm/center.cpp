// Centring alone: y = (x - mean x) gamma + beta over the features, LayerNorm without the division; what
// re-centring does by itself. Xu et al. 2019, arXiv 1911.07013, take LayerNorm apart so; RMSNorm (Zhang &
// Sennrich 2019) keeps the other half.
//
//   dx = g - mean g, g = dy gamma;  dgamma = Σ dy (x - mean), dbeta = Σ dy over rows
//
// Shapes: x, y (B, T, C); gamma, beta (C); kept: mean (B, T, 1).
#include <algorithm>

#include "plumb/kernel/rows.h"
#include "plumb/norm/norm.h"

namespace plumb {
namespace {

template <class R>
class CenterOp final : public Op<R> {
 public:
  explicit CenterOp(const Affine& a) : a_(a) {}
  OpInfo info() const override { return {.kind = "center"}; }

  std::size_t prepare(const Run<R>& r, ProductCache<R>&) override {
    return static_cast<std::size_t>(r.in(0).cols) * sizeof(double) * 2;
  }

  void forward(Run<R>& r) const override {
    const auto x = r.in(0), gamma = a_.gamma(r), beta = a_.beta(r);
    const auto y = r.out(), mean = r.kept();
    for (std::int64_t i = 0; i < x.rows; ++i) {
      const R* from = x.row(i);
      const R m = static_cast<R>(sum(x.slice(i, 1)) / static_cast<double>(x.cols));
      *mean.row(i) = m;
      for (std::int64_t j = 0; j < x.cols; ++j)
        y.row(i)[j] = (from[j] - m) * (gamma ? gamma.data[j] : R(1)) + (beta ? beta.data[j] : R(0));
    }
  }

  void backward(Run<R>& r) const override {
    const auto x = r.in(0), dy = r.dout(), gamma = a_.gamma(r);
    const auto mean = r.kept();
    const auto dx = r.din(0), dgamma = a_.dgamma(r), dbeta = a_.dbeta(r);
    auto* by_gain = static_cast<double*>(r.scratch());
    double* by_bias = by_gain + x.cols;
    std::fill_n(by_gain, 2 * x.cols, 0.0);
    for (std::int64_t i = 0; i < x.rows; ++i) {
      const R m = *mean.row(i);
      const R *from = x.row(i), *grad = dy.row(i);
      for (std::int64_t j = 0; j < x.cols; ++j) {
        by_gain[j] += static_cast<double>(grad[j]) * static_cast<double>(from[j] - m);
        by_bias[j] += static_cast<double>(grad[j]);
      }
      if (!dx) continue;
      const double sum_g = gamma ? dot(dy.slice(i, 1), gamma) : sum(dy.slice(i, 1));
      const R mean_g = static_cast<R>(sum_g / static_cast<double>(x.cols));
      for (std::int64_t j = 0; j < x.cols; ++j) {
        R& to = dx.v.row(i)[j];
        to = dy.row(i)[j] * (gamma ? gamma.data[j] : R(1)) - mean_g + (dx.overwrite ? R(0) : to);
      }
    }
    add(dgamma, by_gain);
    add(dbeta, by_bias);
  }

 private:
  static void add(Sink<R> to, const double* sums) {
    if (!to) return;
    for (std::int64_t j = 0; j < to.v.cols; ++j)
      to.v.data[j] = static_cast<R>(sums[j] + (to.overwrite ? 0 : static_cast<double>(to.v.data[j])));
  }
  Affine a_;
};

template <class R>
class Center final : public Norm<R> {
 public:
  explicit Center(const DecoderSpec& s) : affine_(s) {}

  Value build(Builder<R>& b, Value x, const std::string& name, int layer) const override {
    const Shape shape = b.shape(x);
    Shape per_row = shape;
    per_row.dims.back() = Dim{};
    NodeSpec n{.name = name, .in = {x}, .out = {shape}, .kept = {per_row}};
    n.backward_reads_out = false;
    affine_.add_to(b, n, name, shape.dims.back(), layer);
    const Value y = b.node1(std::make_unique<CenterOp<R>>(affine_), std::move(n));
    b.expected_var(y, b.expected_var(x));  // but for the share 1/C that the mean takes
    return y;
  }

 private:
  Affine affine_;
};

}  // namespace

namespace entries::norm {
extern constexpr NormEntry center = norm_entry<Center>({
    .name = "center",
    .purpose = "What re-centring alone does, beside rms (re-scaling alone) and layer (both).",
    .formula = "y = (x - mean x) * gamma + beta, over the features of each position",
    .paper = "Xu et al. 2019, arXiv 1911.07013",
    .pitfalls = "The scale stays in: the stream's growth reaches the branches.",
    .fields = "model.norm_affine, model.norm_bias, model.norm_gain",
});
}  // namespace entries::norm

}  // namespace plumb
