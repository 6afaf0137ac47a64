// Weight normalisation: w = g v / |v| for each output. Salimans & Kingma 2016, arXiv 1602.07868, eqs. 2-3.
//
//   dg = dw v̂;  dv = (g / |v|) (dw - v̂ (v̂ dw)),  v̂ = v / |v|
//
// Shapes: v, w (out, in); g (out), |v| at the start, so that the model starts as it would without; kept:
// 1/|v| (out, 1). A row of zeros has no direction: the result is not finite, and says so.
#include <cmath>

#include "plumb/weight/weight.h"

namespace plumb {
namespace {

template <class R>
class WeightNormOp final : public Op<R> {
 public:
  OpInfo info() const override { return {.kind = "weight_norm"}; }

  void forward(Run<R>& r) const override {
    const auto v = r.in(0), g = r.in(1);
    const auto w = r.out(), inverse = r.kept();
    for (std::int64_t i = 0; i < v.rows; ++i) {
      double sum = 0;
      for (std::int64_t j = 0; j < v.cols; ++j)
        sum += static_cast<double>(v.row(i)[j]) * static_cast<double>(v.row(i)[j]);
      *inverse.row(i) = static_cast<R>(1 / std::sqrt(sum));
      const double k = static_cast<double>(g.data[i]) / std::sqrt(sum);
      for (std::int64_t j = 0; j < v.cols; ++j)
        w.row(i)[j] = static_cast<R>(k * static_cast<double>(v.row(i)[j]));
    }
  }

  void backward(Run<R>& r) const override {
    const auto v = r.in(0), g = r.in(1), dw = r.dout();
    const auto inverse = r.kept();
    const auto dv = r.din(0), dg = r.din(1);
    for (std::int64_t i = 0; i < v.rows; ++i) {
      const auto s = static_cast<double>(*inverse.row(i));
      double dot = 0;  // v̂ dw
      for (std::int64_t j = 0; j < v.cols; ++j)
        dot += s * static_cast<double>(v.row(i)[j]) * static_cast<double>(dw.row(i)[j]);
      if (dg) {
        R& to = dg.v.data[i];
        to = static_cast<R>(dot + (dg.overwrite ? 0 : static_cast<double>(to)));
      }
      if (!dv) continue;
      const double k = static_cast<double>(g.data[i]) * s;
      for (std::int64_t j = 0; j < v.cols; ++j) {
        const double d = k * (static_cast<double>(dw.row(i)[j]) - s * static_cast<double>(v.row(i)[j]) * dot);
        R& to = dv.v.row(i)[j];
        to = static_cast<R>(d + (dv.overwrite ? 0 : static_cast<double>(to)));
      }
    }
  }
};

template <class R>
class WeightNorm final : public WeightParam<R> {
 public:
  explicit WeightNorm(const DecoderSpec&) {}

  Value transform(Builder<R>& b, Value v, const ParamSpec& p) const override {
    const Value g =
        b.param({p.name + "_g", Role::norm_gain, Shape{p.shape.dims.front()}, p.fan_in, p.fan_out, p.layer},
                {.kind = ParamRule::Kind::row_norms, .of = p.name});
    return b.node1(std::make_unique<WeightNormOp<R>>(), {.name = p.name + ".normalised",
                                                         .in = {v, g},
                                                         .out = {b.shape(v)},
                                                         .kept = {Shape{p.shape.dims.front(), Dim{}}},
                                                         .backward_reads_out = false});
  }
};

std::string weight_norm_refuses(const DecoderSpec& s) {
  if (s.init.scheme == "zero_last" || s.init.scheme == "fixup")
    return fmt::format("init.scheme = '{}' starts matrices at zero, which have no direction; choose another",
                       s.init.scheme);
  return {};
}

}  // namespace

namespace entries::weight {
extern constexpr WeightEntry weight_norm = weight_entry<WeightNorm>({
    .name = "weight_norm",
    .purpose = "A row's length learned apart from its direction, so that steps do not depend on the length.",
    .formula = "w = g v / |v|, per output; g = |v| at the start",
    .paper = "Salimans & Kingma 2016, arXiv 1602.07868",
    .pitfalls = "|v| can only grow under gradient descent (its gradient is orthogonal to v), so the learning "
                "rate of the "
                "direction falls as it does; weight decay acts on v alone, which then only sets that rate.",
    .refuses = weight_norm_refuses,
});
}  // namespace entries::weight

}  // namespace plumb
