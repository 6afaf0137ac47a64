// What init rules share: the spec's distribution, and Fixup's scalars as ops.
//
//   y = x + s: dx = dy, ds = Σ dy.   y = s x: dx = s dy, ds = Σ dy x.
//
// Gradients: every sink as it says; a scalar's is a sum over the shard's elements in double.
#include "plumb/init/init.h"

#include <cmath>

#include "plumb/kernel/rows.h"

namespace plumb {
namespace {

template <class R>
void put(const Sink<R>& s, double d) {
  if (s) *s.v.data = static_cast<R>(s.overwrite ? d : static_cast<double>(*s.v.data) + d);
}

template <class R>
class AddScalarOp final : public Op<R> {
 public:
  OpInfo info() const override { return {.kind = "add_scalar"}; }
  void forward(Run<R>& r) const override {
    const auto x = r.in(0);
    const auto y = r.out();
    const R s = *r.in(1).data;
    for (std::int64_t i = 0; i < x.rows; ++i)
      for (std::int64_t j = 0; j < x.cols; ++j) y.row(i)[j] = x.row(i)[j] + s;
  }
  void backward(Run<R>& r) const override {
    pass(1, r.dout(), r.din(0));
    put(r.din(1), sum(r.dout()));
  }
};

template <class R>
class MultiplyScalarOp final : public Op<R> {
 public:
  OpInfo info() const override { return {.kind = "multiply_scalar"}; }
  void forward(Run<R>& r) const override {
    pass(static_cast<double>(*r.in(1).data), r.in(0), Sink<R>{r.out(), true});
  }
  void backward(Run<R>& r) const override {
    pass(static_cast<double>(*r.in(1).data), r.dout(), r.din(0));
    put(r.din(1), dot(r.dout(), r.in(0)));
  }
};

}  // namespace

ParamRule drawn(const DecoderSpec& s, double std) {
  if (s.init.distribution == "uniform") return {ParamRule::Kind::uniform, std::sqrt(3.0) * std};
  return {ParamRule::Kind::normal, std};
}

ParamRule by_fans(const DecoderSpec& s, const ParamSpec& p, double std) {
  switch (p.role) {
    case Role::bias:
    case Role::scalar:
      return {ParamRule::Kind::constant, 0};
    case Role::token_embed:
    case Role::pos_embed:
    case Role::score_bias:
      return drawn(s, s.init.std);
    default:
      return drawn(s, std);
  }
}

std::string refuses_zero_writes(const DecoderSpec& s) {
  if (s.residual == "none")
    return "without a residual path the stream is what the last branch wrote, and that is zero: nothing gets "
           "a gradient; "
           "choose another";
  return {};
}

template <class R>
Value add_scalar(Builder<R>& b, Value x, Value s, const std::string& name) {
  const Value y = b.node1(std::make_unique<AddScalarOp<R>>(), {.name = name,
                                                               .in = {x, s},
                                                               .out = {b.shape(x)},
                                                               .backward_reads_in = false,
                                                               .backward_reads_out = false});
  b.expected_var(y, b.expected_var(x));
  return y;
}

template <class R>
Value multiply_scalar(Builder<R>& b, Value x, Value s, const std::string& name) {
  const Value y = b.node1(std::make_unique<MultiplyScalarOp<R>>(),
                          {.name = name, .in = {x, s}, .out = {b.shape(x)}, .backward_reads_out = false});
  b.expected_var(y, b.expected_var(x) * b.rule(s).scale * b.rule(s).scale);
  return y;
}

#define PLUMB_INSTANTIATE(R)                                                \
  template Value add_scalar(Builder<R>&, Value, Value, const std::string&); \
  template Value multiply_scalar(Builder<R>&, Value, Value, const std::string&);
PLUMB_INSTANTIATE(float)
PLUMB_INSTANTIATE(double)
#undef PLUMB_INSTANTIATE

}  // namespace plumb
