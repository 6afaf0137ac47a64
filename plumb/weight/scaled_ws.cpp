// Scaled weight standardisation. Brock, De, Smith 2021, arXiv 2101.08692, eq. 1; the authors' code for eps
// and gain.
//
//   w^ = (w - mean w) * gain / sqrt(max(fan_in var w, 1e-4))     per output row, biased variance
//   dw = s (g - mean g - c mean(g c) / var)    with c = w - mean w, s = gain / sqrt(fan_in var), g = dw^;
//        where the floor holds: dw = s (g - mean g)
//   dgain = sum(dw^ c) / sqrt(max(fan_in var, 1e-4))
//
// Shapes: w, w^ (out, in); gain (out), 1 at the start; kept: mean and 1/sqrt(…) (out, 1).
// Activations are multiplied by 1/std(act(z)), z ~ N(0,1), so that a layer keeps variance 1.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "plumb/weight/weight.h"

namespace plumb {
namespace {

constexpr double floor_of_variance = 1e-4;

template <class R>
class ScaledWsOp final : public Op<R> {
 public:
  OpInfo info() const override { return {.kind = "scaled_ws"}; }

  void forward(Run<R>& r) const override {
    const auto w = r.in(0), gain = r.in(1);
    const auto y = r.out(), mean = r.kept(0), rs = r.kept(1);
    const auto n = static_cast<double>(w.cols);
    for (std::int64_t i = 0; i < w.rows; ++i) {
      double m = 0, v = 0;
      for (std::int64_t j = 0; j < w.cols; ++j) m += static_cast<double>(w.row(i)[j]);
      m /= n;
      for (std::int64_t j = 0; j < w.cols; ++j) v += std::pow(static_cast<double>(w.row(i)[j]) - m, 2);
      // fan_in * var = v. Not std::max, which would hide a NaN.
      const double s = 1 / std::sqrt(v < floor_of_variance ? floor_of_variance : v);
      *mean.row(i) = static_cast<R>(m);
      *rs.row(i) = static_cast<R>(s);
      const double k = s * static_cast<double>(gain.data[i]);
      for (std::int64_t j = 0; j < w.cols; ++j)
        y.row(i)[j] = static_cast<R>((static_cast<double>(w.row(i)[j]) - m) * k);
    }
  }

  void backward(Run<R>& r) const override {
    const auto w = r.in(0), gain = r.in(1), dy = r.dout();
    const auto mean = r.kept(0), rs = r.kept(1);
    const auto dw = r.din(0), dgain = r.din(1);
    for (std::int64_t i = 0; i < w.rows; ++i) {
      const double m = static_cast<double>(*mean.row(i)), s = static_cast<double>(*rs.row(i));
      double sum = 0, dot = 0;
      for (std::int64_t j = 0; j < w.cols; ++j) {
        sum += static_cast<double>(dy.row(i)[j]);
        dot += static_cast<double>(dy.row(i)[j]) * (static_cast<double>(w.row(i)[j]) - m);
      }
      if (dgain) {
        R& to = dgain.v.data[i];
        to = static_cast<R>(dot * s + (dgain.overwrite ? 0 : static_cast<double>(to)));
      }
      if (!dw) continue;
      const double k = s * static_cast<double>(gain.data[i]), mean_g = sum / static_cast<double>(w.cols);
      const bool floored = s * s * floor_of_variance >= 1;
      const double through_scale = floored ? 0 : dot * s * s;
      for (std::int64_t j = 0; j < w.cols; ++j) {
        const double c = static_cast<double>(w.row(i)[j]) - m;
        const double d = k * (static_cast<double>(dy.row(i)[j]) - mean_g - c * through_scale);
        R& to = dw.v.row(i)[j];
        to = static_cast<R>(d + (dw.overwrite ? 0 : static_cast<double>(to)));
      }
    }
  }
};

template <class R>
class ScaledWs final : public WeightParam<R> {
 public:
  explicit ScaledWs(const DecoderSpec& s) : leaky_slope_(s.init.leaky_slope) {}

  Value transform(Builder<R>& b, Value w, const ParamSpec& p) const override {
    if (p.role == Role::readout || p.role == Role::router)
      return w;  // the classifier is left alone, as in the paper
    const Value gain = b.param(
        {p.name + "_gain", Role::norm_gain, Shape{p.shape.dims.front()}, p.fan_in, p.fan_out, p.layer},
        {ParamRule::Kind::constant, 1});
    Shape per_row{p.shape.dims.front(), Dim{}};
    return b.node1(std::make_unique<ScaledWsOp<R>>(), {.name = p.name + ".standardised",
                                                       .in = {w, gain},
                                                       .out = {b.shape(w)},
                                                       .kept = {per_row, per_row},
                                                       .backward_reads_out = false});
  }

  // 1/std of act(z), z ~ N(0, 1), by quadrature (the published ones are sampled, 0.1 % off).
  double activation_gain(std::string_view kind) const override {
    if (kind == "relu") return 1.7128585504496627;  // 1 / sqrt((1 - 1/pi) / 2)
    if (kind == "gelu") return 1.700926243;
    if (kind == "gelu_tanh") return 1.700916562;
    if (kind == "silu") return 1.787187222;
    if (kind == "tanh") return 1.592537420;
    if (kind == "leaky_relu") {
      const double a = leaky_slope_;
      return 1 / std::sqrt((1 + a * a) / 2 - (1 - a) * (1 - a) / (2 * std::numbers::pi));
    }
    return 1;
  }

 private:
  double leaky_slope_;
};

}  // namespace

namespace entries::weight {
extern constexpr WeightEntry scaled_ws = weight_entry<ScaledWs>({
    .name = "scaled_ws",
    .purpose = "Networks without norms: the weights, not the activations, are kept at a scale that preserves "
               "variance.",
    .formula = "w^ = (w - mean w) gain / sqrt(max(fan_in var w, 1e-4)), per output",
    .paper = "Brock, De, Smith 2021, arXiv 2101.08692",
    .pitfalls = "The activation's constant multiplies the activation, not the weight.",
});
}  // namespace entries::weight

}  // namespace plumb
