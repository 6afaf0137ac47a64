// What the plain feed-forward kinds share. Vaswani et al. 2017, arXiv 1706.03762, eq. 2.
#include "plumb/ffn/ffn.h"

#include <algorithm>

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

}  // namespace

template <class R>
Value activation(Builder<R>& b, Value x, const Activation<R>& a, const std::string& name) {
  x = b.before_activation(x, name);
  return b.node1(std::make_unique<ActivationOp<R>>(a, b.activation_gain(a.kind)),
                 {.name = name, .in = {x}, .out = {b.shape(x)}, .backward_reads_out = false});
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
