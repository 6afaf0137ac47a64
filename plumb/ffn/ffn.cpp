// What the feed-forward kinds share. Vaswani et al. 2017, arXiv 1706.03762, eq. 2; gated: Shazeer 2020, arXiv
// 2002.05202.
#include "plumb/ffn/ffn.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

namespace plumb {
namespace {

template <class R, class F>
void by_pieces(const Run<R>& r, const F& f) {
  const std::int64_t rows = r.in(0).rows, piece = std::min(rows, r.piece_rows());
  r.parallel((rows + piece - 1) / piece,
             [&](std::int64_t i) { f(i * piece, std::min(piece, rows - i * piece)); });
}

template <class R>
Sink<R> cut(Sink<R> s, std::int64_t at, std::int64_t n) {
  return s ? Sink<R>{s.v.slice(at, n), s.overwrite} : s;
}

template <class R>
class ActivationOp final : public Op<R> {
 public:
  explicit ActivationOp(const Activation& a) : a_(a) {}
  OpInfo info() const override { return {.kind = act_name(a_.act)}; }

  void forward(Run<R>& r) const override {
    by_pieces(r, [&](std::int64_t at, std::int64_t n) {
      activation_forward<R>(a_, r.in(0).slice(at, n), r.out().slice(at, n));
    });
  }

  void backward(Run<R>& r) const override {
    const Sink<R> dx = r.din(0);
    if (!dx) return;
    by_pieces(r, [&](std::int64_t at, std::int64_t n) {
      activation_backward<R>(a_, r.dout().slice(at, n), r.in(0).slice(at, n), cut(dx, at, n));
    });
  }

 private:
  Activation a_;
};

// Inputs: gate, up.
template <class R>
class GatedOp final : public Op<R> {
 public:
  explicit GatedOp(const Activation& a) : a_(a) {}
  OpInfo info() const override { return {.kind = "gated_activation"}; }

  void forward(Run<R>& r) const override {
    by_pieces(r, [&](std::int64_t at, std::int64_t n) {
      gated_forward<R>(a_, r.in(0).slice(at, n), r.in(1).slice(at, n), r.out().slice(at, n));
    });
  }

  void backward(Run<R>& r) const override {
    const Sink<R> dgate = r.din(0), dup = r.din(1);
    by_pieces(r, [&](std::int64_t at, std::int64_t n) {
      gated_backward<R>(a_, r.dout().slice(at, n), r.in(0).slice(at, n), r.in(1).slice(at, n),
                        cut(dgate, at, n), cut(dup, at, n));
    });
  }

 private:
  Activation a_;
};

// E[a(x)²] for x ~ N(0, var): the trapezoid rule over ±8 standard deviations, where its error is far below
// what matters.
template <class R>
double gaussian_second_moment(const Activation& a, double var) {
  constexpr int n = 321;
  constexpr double step = 16.0 / (n - 1);
  std::array<R, n> x{}, y{};
  for (std::size_t i = 0; i < n; ++i)
    x[i] = static_cast<R>((static_cast<double>(i) * step - 8) * std::sqrt(var));
  activation_forward<R>(a, {x.data(), 1, n, n}, {y.data(), 1, n, n});
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double z = static_cast<double>(i) * step - 8;
    sum += std::exp(-z * z / 2) * static_cast<double>(y[i]) * static_cast<double>(y[i]);
  }
  return sum * step / std::sqrt(2 * std::numbers::pi);
}

}  // namespace

template <class R>
Value activation(Builder<R>& b, Value x, Activation a, const std::string& name) {
  a.gain = b.activation_gain(act_name(a.act));
  const double var = b.expected_var(x);
  const Value y = b.node1(std::make_unique<ActivationOp<R>>(a),
                          {.name = name, .in = {x}, .out = {b.shape(x)}, .backward_reads_out = false});
  b.expected_var(y, gaussian_second_moment<R>(a, var));
  return y;
}

template <class R>
Value mlp(Builder<R>& b, Value x, const DecoderSpec& s, Activation a, const std::string& name, int layer) {
  const Value in = b.linear(x, {name + ".in", {'F', s.d_ff, true}, Role::ffn_in, s.ffn.bias, layer});
  const Value pre = b.point(name + ".pre", b.before_activation(in, name + ".act"));
  const Value act = b.point(name + ".act", activation(b, pre, a, name + ".act"));
  return b.point(name + ".out",
                 b.linear(act, {name + ".out", {'C', s.d_model, true}, Role::ffn_out, s.ffn.bias, layer}));
}

template <class R>
Value gated_mlp(Builder<R>& b, Value x, const DecoderSpec& s, Activation a, const std::string& name,
                int layer) {
  const Dim hidden{'F', s.d_ff, true};
  const LinearSpec both[2] = {{name + ".gate", hidden, Role::ffn_gate, s.ffn.bias, layer},
                              {name + ".in", hidden, Role::ffn_in, s.ffn.bias, layer}};
  const std::vector<Value> made = b.linears(x, both);
  const Value up = b.point(name + ".up", made[1]);
  const Value gate = b.point(name + ".pre", b.before_activation(made[0], name + ".act"));
  a.gain = b.activation_gain(act_name(a.act));
  const double var = gaussian_second_moment<R>(a, b.expected_var(gate)) * b.expected_var(up);
  Value act =
      b.node1(std::make_unique<GatedOp<R>>(a),
              {.name = name + ".act", .in = {gate, up}, .out = {b.shape(gate)}, .backward_reads_out = false});
  b.expected_var(act, var);
  act = b.point(name + ".act", act);
  return b.point(name + ".out",
                 b.linear(act, {name + ".out", {'C', s.d_model, true}, Role::ffn_out, s.ffn.bias, layer}));
}

#define PLUMB_INSTANTIATE(R)                                                                       \
  template Value activation(Builder<R>&, Value, Activation, const std::string&);                   \
  template Value mlp(Builder<R>&, Value, const DecoderSpec&, Activation, const std::string&, int); \
  template Value gated_mlp(Builder<R>&, Value, const DecoderSpec&, Activation, const std::string&, int);
PLUMB_INSTANTIATE(float)
PLUMB_INSTANTIATE(double)
#undef PLUMB_INSTANTIATE

}  // namespace plumb
