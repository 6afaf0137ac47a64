// What the plain feed-forward kinds share. Vaswani et al. 2017, arXiv 1706.03762, eq. 2.
#include "plumb/ffn/ffn.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

namespace plumb {
namespace {

template <class R>
class ActivationOp final : public Op<R> {
 public:
  ActivationOp(const Activation<R>& a, double gain) : a_(a), gain_(gain) {}
  OpInfo info() const override { return {.kind = a_.kind}; }

  void forward(Run<R>& r) const override {
    pieces(r, r.in(0).rows, [&](std::int64_t at, std::int64_t n) {
      a_.forward(r.in(0).slice(at, n), gain_, r.out().slice(at, n));
    });
  }

  void backward(Run<R>& r) const override {
    const auto dx = r.din(0);
    if (!dx) return;
    pieces(r, r.in(0).rows, [&](std::int64_t at, std::int64_t n) {
      a_.backward(r.dout().slice(at, n), r.in(0).slice(at, n), gain_, {dx.v.slice(at, n), dx.overwrite});
    });
  }

 private:
  template <class F>
  static void pieces(const Run<R>& r, std::int64_t rows, const F& f) {
    const std::int64_t piece = std::min(rows, r.piece_rows());
    r.parallel((rows + piece - 1) / piece, [&](std::int64_t i) { f(i * piece, std::min(piece, rows - i * piece)); });
  }
  Activation<R> a_;
  double gain_;
};

// E[a(x)²] for x ~ N(0, var): the trapezoid rule over ±8 standard deviations, where its error is far below what matters.
template <class R>
double gaussian_second_moment(const Activation<R>& a, double gain, double var) {
  constexpr int n = 321;
  constexpr double step = 16.0 / (n - 1);
  std::array<R, n> x{}, y{};
  for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<R>((static_cast<double>(i) * step - 8) * std::sqrt(var));
  a.forward({x.data(), 1, n, n}, gain, {y.data(), 1, n, n});
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double z = static_cast<double>(i) * step - 8;
    sum += std::exp(-z * z / 2) * static_cast<double>(y[i]) * static_cast<double>(y[i]);
  }
  return sum * step / std::sqrt(2 * std::numbers::pi);
}

}  // namespace

template <class R>
Value activation(Builder<R>& b, Value x, const Activation<R>& a, const std::string& name) {
  x = b.before_activation(x, name);
  const double gain = b.activation_gain(a.kind), var = b.expected_var(x);
  const Value y = b.node1(std::make_unique<ActivationOp<R>>(a, gain),
                          {.name = name, .in = {x}, .out = {b.shape(x)}, .backward_reads_out = false});
  b.expected_var(y, gaussian_second_moment(a, gain, var));
  return y;
}

template <class R>
Value mlp(Builder<R>& b, Value x, const DecoderSpec& s, const Activation<R>& a, const std::string& name, int layer) {
  const Value pre = b.point(name + ".pre", b.linear(x, {name + ".in", {'F', s.d_ff, true}, Role::ffn_in, s.ffn.bias, layer}));
  const Value act = b.point(name + ".act", activation(b, pre, a, name + ".act"));
  return b.point(name + ".out",
                 b.linear(act, {name + ".out", {'C', s.d_model, true}, Role::ffn_out, s.ffn.bias, layer}));
}

#define PLUMB_INSTANTIATE(R)                                                                   \
  template Value activation(Builder<R>&, Value, const Activation<R>&, const std::string&);     \
  template Value mlp(Builder<R>&, Value, const DecoderSpec&, const Activation<R>&, const std::string&, int);
PLUMB_INSTANTIATE(float)
PLUMB_INSTANTIATE(double)
#undef PLUMB_INSTANTIATE

}  // namespace plumb
