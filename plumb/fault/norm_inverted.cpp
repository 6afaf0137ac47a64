// The norm multiplies by the deviation where it should divide: y = N(x) std(x)^(2 s), std over the features.
#include <cmath>
#include "plumb/fault/fault.h"

namespace plumb {
namespace {

// dv = dy std^(2 s); dx[j] = sum(dy v) 2 s std^(2 s - 1) (x[j] - mean) / (n std).
template <class R>
class InvertedOp final : public Op<R> {
 public:
  explicit InvertedOp(double s) : power_(2 * s) {}
  OpInfo info() const override { return {.kind = "norm_inverted"}; }

  void forward(Run<R>& r) const override {
    for (std::int64_t i = 0; i < r.in(0).rows; ++i) {
      const auto by = static_cast<R>(std::pow(moments(r.in(1), i).std, power_));
      for (std::int64_t j = 0; j < r.in(0).cols; ++j) r.out().row(i)[j] = by * r.in(0).row(i)[j];
    }
  }

  void backward(Run<R>& r) const override {
    const Sink<R> dv = r.din(0), dx = r.din(1);
    const std::int64_t n = r.in(0).cols;
    for (std::int64_t i = 0; i < r.in(0).rows; ++i) {
      const Moments m = moments(r.in(1), i);
      const R *dy = r.dout().row(i), *v = r.in(0).row(i), *x = r.in(1).row(i);
      double along = 0;
      for (std::int64_t j = 0; j < n; ++j) along += static_cast<double>(dy[j]) * static_cast<double>(v[j]);
      const double to_v = std::pow(m.std, power_),
                   to_x =
                       m.std > 0 ? along * power_ * std::pow(m.std, power_ - 2) / static_cast<double>(n) : 0;
      const auto give = [&](const Sink<R>& to, std::int64_t j, double g) {
        if (!to) return;
        R& d = to.v.row(i)[j];
        d = to.overwrite ? static_cast<R>(g) : d + static_cast<R>(g);
      };
      for (std::int64_t j = 0; j < n; ++j) {
        give(dv, j, to_v * static_cast<double>(dy[j]));
        give(dx, j, to_x * (static_cast<double>(x[j]) - m.mean));
      }
    }
  }

 private:
  struct Moments {
    double mean = 0, std = 0;
  };
  static Moments moments(View<const R> x, std::int64_t i) {
    const auto n = static_cast<double>(x.cols);
    Moments m;
    double squares = 0;
    for (std::int64_t j = 0; j < x.cols; ++j) m.mean += static_cast<double>(x.row(i)[j]) / n;
    for (std::int64_t j = 0; j < x.cols; ++j)
      squares += std::pow(static_cast<double>(x.row(i)[j]) - m.mean, 2);
    m.std = std::sqrt(squares / n);
    return m;
  }
  double power_;
};

template <class R>
class NormInverted final : public GraphFault<R> {
 public:
  NormInverted(const DecoderSpec&, double strength) : s_(strength) {}
  Value at(Builder<R>& b, std::string_view point, Value v) override {
    if (point.ends_with(".norm_in")) read_ = v;
    if (!point.starts_with("blocks.") || !point.ends_with(".norm")) return v;
    const Value y = b.node1(std::make_unique<InvertedOp<R>>(s_), {.name = std::string(point) + ".fault",
                                                                  .in = {v, read_},
                                                                  .out = {b.shape(v)},
                                                                  .backward_reads_out = false});
    b.expected_var(y, b.expected_var(v) * std::pow(b.expected_var(read_), 2 * s_));
    return y;
  }

 private:
  double s_;
  Value read_;
};

}  // namespace

namespace entries::fault {
extern constexpr FaultEntry norm_inverted = graph_fault<NormInverted>({
    .name = "norm_inverted",
    .what = "the norms of the blocks multiply by the deviation instead of dividing by it",
    .strength = "y = N(x) std(x)^(2 strength): at 1/2 the scale is as it came, at 1 it is squared",
    .refuses = refuses_without_norm,
});
}  // namespace entries::fault

}  // namespace plumb
