// The ops that residual rules share. Gradients: every sink as it says; a learned scalar's gradient is a sum
// over the shard's elements in double.
#include "plumb/residual/residual.h"

#include "plumb/base/error.h"
#include "plumb/kernel/rows.h"

namespace plumb {
namespace {

template <class R>
class ScaledSumOp final : public Op<R> {
 public:
  ScaledSumOp(double a, double b, bool two) : a_(a), b_(b), two_(two) {}
  OpInfo info() const override { return {.kind = two_ ? "residual_add" : "scale"}; }

  void forward(Run<R>& r) const override {
    axpby(a_, r.in(0), b_, two_ ? r.in(1) : View<const R>{}, r.out());
  }

  void backward(Run<R>& r) const override {
    pass(a_, r.dout(), r.din(0));
    if (two_) pass(b_, r.dout(), r.din(1));
  }

 private:
  double a_, b_;
  bool two_;
};

// y = x + a g z. dx = dy; dz = a g dy; dg = a sum(dy z).
template <class R>
class GatedSumOp final : public Op<R> {
 public:
  explicit GatedSumOp(double a) : a_(a) {}
  OpInfo info() const override { return {.kind = "residual_gate"}; }

  void forward(Run<R>& r) const override { axpby(1, r.in(0), gain(r), r.in(2), r.out()); }

  void backward(Run<R>& r) const override {
    pass(1, r.dout(), r.din(0));
    if (auto dg = r.din(1)) {
      const auto d = static_cast<R>(a_ * dot(r.dout(), r.in(2)));
      R& to = *dg.v.data;
      to = dg.overwrite ? d : to + d;
    }
    pass(gain(r), r.dout(), r.din(2));
  }

 private:
  double gain(const Run<R>& r) const { return a_ * static_cast<double>(*r.in(1).data); }
  double a_;
};

}  // namespace

void require_same_shape(std::string_view op, const std::string& name, const Shape& stream,
                        const Shape& branch) {
  if (stream.rows() != branch.rows() || stream.cols() != branch.cols())
    fail("[{}] {}: the stream is {}, the branch wrote {}", op, name, stream.text(), branch.text());
}

std::string refuses_zero_start(const DecoderSpec& s) {
  if (s.placement == "post")
    return "a norm after the addition undoes a branch that starts at zero; use placement = 'pre'";
  return {};
}

template <class R>
Value scaled_sum(Builder<R>& b, double a, Value x, double c, Value z, const std::string& name) {
  require_same_shape("residual_add", name, b.shape(x), b.shape(z));
  const Value y = b.node1(std::make_unique<ScaledSumOp<R>>(a, c, true), {.name = name,
                                                                         .in = {x, z},
                                                                         .out = {b.shape(x)},
                                                                         .backward_reads_in = false,
                                                                         .backward_reads_out = false});
  b.expected_var(y, a * a * b.expected_var(x) + c * c * b.expected_var(z));
  return y;
}

template <class R>
Value scaled(Builder<R>& b, double a, Value x, const std::string& name) {
  const Value y = b.node1(std::make_unique<ScaledSumOp<R>>(a, 0, false), {.name = name,
                                                                          .in = {x},
                                                                          .out = {b.shape(x)},
                                                                          .backward_reads_in = false,
                                                                          .backward_reads_out = false});
  b.expected_var(y, a * a * b.expected_var(x));
  return y;
}

template <class R>
Value gated_sum(Builder<R>& b, Value x, double a, Value g, Value z, const std::string& name) {
  require_same_shape("residual_gate", name, b.shape(x), b.shape(z));
  return b.node1(std::make_unique<GatedSumOp<R>>(a),
                 {.name = name, .in = {x, g, z}, .out = {b.shape(x)}, .backward_reads_out = false});
}

#define PLUMB_INSTANTIATE(R)                                                                \
  template Value scaled_sum(Builder<R>&, double, Value, double, Value, const std::string&); \
  template Value scaled(Builder<R>&, double, Value, const std::string&);                    \
  template Value gated_sum(Builder<R>&, Value, double, Value, Value, const std::string&);
PLUMB_INSTANTIATE(float)
PLUMB_INSTANTIATE(double)
#undef PLUMB_INSTANTIATE

}  // namespace plumb
