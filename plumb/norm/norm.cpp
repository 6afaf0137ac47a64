// What norms share: gain and bias as parameters, and the ops of GroupNorm and of the squashing norms.
#include "plumb/norm/norm.h"

#include "plumb/kernel/group_norm.h"
#include "plumb/kernel/squash.h"

namespace plumb {
namespace {

// gamma = 1 + w. dw = dgamma.
template <class R>
class PlusOneOp final : public Op<R> {
 public:
  OpInfo info() const override { return {.kind = "plus_one"}; }
  void forward(Run<R>& r) const override {
    for (std::int64_t j = 0; j < r.out().cols; ++j) r.out().data[j] = 1 + r.in(0).data[j];
  }
  void backward(Run<R>& r) const override {
    if (const auto dw = r.din(0))
      for (std::int64_t j = 0; j < dw.v.cols; ++j)
        dw.v.data[j] = r.dout().data[j] + (dw.overwrite ? R(0) : dw.v.data[j]);
  }
};

template <class R>
class GroupNormOp final : public Op<R> {
 public:
  GroupNormOp(std::int64_t groups, double eps, const Affine& a) : groups_(groups), eps_(eps), a_(a) {}
  OpInfo info() const override { return {.kind = "group_norm", .sees_future = true}; }

  std::size_t prepare(const Run<R>& r, ProductCache<R>&) override {
    return static_cast<std::size_t>(r.in(0).cols) * 2 * sizeof(double);
  }

  void forward(Run<R>& r) const override {
    group_norm_forward(r.in(0), r.sequences(), groups_, eps_, a_.gamma(r), a_.beta(r), r.out(), r.kept(0),
                       r.kept(1), static_cast<double*>(r.scratch()));
  }
  void backward(Run<R>& r) const override {
    group_norm_backward(r.dout(), r.in(0), r.sequences(), groups_, a_.gamma(r), View<const R>(r.kept(0)),
                        View<const R>(r.kept(1)), r.din(0), a_.dgamma(r), a_.dbeta(r),
                        static_cast<double*>(r.scratch()));
  }

 private:
  std::int64_t groups_;
  double eps_;
  Affine a_;
};

template <class R>
class SquashOp final : public Op<R> {
 public:
  SquashOp(Squash kind, bool shifted, const Affine& a) : kind_(kind), shifted_(shifted), a_(a) {}
  OpInfo info() const override { return {.kind = kind_ == Squash::tanh ? "dyt" : "derf"}; }

  void forward(Run<R>& r) const override {
    squash_forward(kind_ == Squash::erf, r.in(0), scalar(r, 0), scalar(r, 1), a_.gamma(r), a_.beta(r),
                   r.out());
  }
  void backward(Run<R>& r) const override {
    const SquashGrads sum = squash_backward(kind_ == Squash::erf, r.dout(), r.in(0), scalar(r, 0),
                                            scalar(r, 1), a_.gamma(r), r.din(0), a_.dgamma(r), a_.dbeta(r));
    add(r.din(first()), sum.alpha);
    if (shifted_) add(r.din(first() + 1), sum.shift);
  }

 private:
  // alpha and s come after gain and bias.
  std::size_t first() const { return 1 + (a_.gain ? 1 : 0) + (a_.bias ? 1 : 0); }
  double scalar(const Run<R>& r, std::size_t i) const {
    return i == 1 && !shifted_ ? 0 : static_cast<double>(*r.in(first() + i).data);
  }
  static void add(Sink<R> to, double d) {
    if (to) *to.v.data = static_cast<R>(d + (to.overwrite ? 0 : static_cast<double>(*to.v.data)));
  }
  Squash kind_;
  bool shifted_;
  Affine a_;
};

}  // namespace

template <class R>
void Affine::add_to(Builder<R>& b, NodeSpec& n, const std::string& name, Dim channels, int layer) const {
  const auto param = [&](const char* what, Role role, double start) {
    return b.param({name + what, role, Shape{channels}, channels.n, channels.n, layer},
                   {ParamRule::Kind::constant, start});
  };
  if (gain && plus_one) {
    const Value w = param(".w", Role::norm_gain, 0);
    n.in.push_back(b.node1(std::make_unique<PlusOneOp<R>>(), {.name = name + ".gamma",
                                                              .in = {w},
                                                              .out = {b.shape(w)},
                                                              .backward_reads_in = false,
                                                              .backward_reads_out = false}));
  } else if (gain) {
    n.in.push_back(param(".gamma", Role::norm_gain, 1));
  }
  if (bias) n.in.push_back(param(".beta", Role::norm_bias, 0));
}

template <class R>
Value group_norm(Builder<R>& b, Value x, std::int64_t groups, double eps, const Affine& affine,
                 const std::string& name, int layer) {
  if (b.context() > 0)
    bad_input(
        "[group_norm] its statistics span the whole sequence, so it cannot decode one position at a time; "
        "use "
        "`eval`, or train with another norm to sample");
  const Shape shape = b.shape(x);
  Shape per_group = shape;
  per_group.dims[1] = Dim{};
  per_group.dims.back() = Dim{'G', groups};
  NodeSpec n{.name = name, .in = {x}, .out = {shape}, .kept = {per_group, per_group}};
  n.backward_reads_out = false;
  affine.add_to(b, n, name, shape.dims.back(), layer);
  const Value y = b.node1(std::make_unique<GroupNormOp<R>>(groups, eps, affine), std::move(n));
  b.expected_var(y, 1);
  return y;
}

template <class R>
Value squashed(Builder<R>& b, Value x, Squash kind, bool shifted, const DecoderSpec& s,
               const std::string& name, int layer) {
  const Affine affine(s);
  const Shape shape = b.shape(x);
  NodeSpec n{.name = name, .in = {x}, .out = {shape}};
  n.backward_reads_out = false;
  affine.add_to(b, n, name, shape.dims.back(), layer);
  const auto scalar = [&](const char* what, double start) {
    n.in.push_back(b.param({.name = name + what, .role = Role::norm_gain, .shape = {Dim{}}, .layer = layer},
                           {ParamRule::Kind::constant, start}));
  };
  const bool before_attention = b.site() && b.site()->sub == Sub::attention;
  scalar(".alpha", before_attention && s.norm_alpha_attention > 0 ? s.norm_alpha_attention : s.norm_alpha);
  if (shifted) scalar(".shift", 0);
  return b.node1(std::make_unique<SquashOp<R>>(kind, shifted, affine), std::move(n));
}

#define PLUMB_INSTANTIATE(R)                                                                             \
  template void Affine::add_to(Builder<R>&, NodeSpec&, const std::string&, Dim, int) const;              \
  template Value group_norm(Builder<R>&, Value, std::int64_t, double, const Affine&, const std::string&, \
                            int);                                                                        \
  template Value squashed(Builder<R>&, Value, Squash, bool, const DecoderSpec&, const std::string&, int);
PLUMB_INSTANTIATE(float)
PLUMB_INSTANTIATE(double)
#undef PLUMB_INSTANTIATE

}  // namespace plumb
