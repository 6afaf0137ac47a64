// Static hyper-connections: n lanes of residual stream, mixed by learned scalars. Zhu et al. 2024, arXiv
// 2409.19606, section 2.
//
//   open X_j = e;   read h = Σ_j a_j X_j;   write X'_i = Σ_j A_ji X_j + b_i o;   close y = Σ_j X_j
//
//   dX_j = Σ_i A_ji dX'_i + a_j dh;   do = Σ_i b_i dX'_i
//   da_j = Σ X_j·dh;   dA_ji = Σ X_j·dX'_i;   db_i = Σ o·dX'_i
//
// At the start a = e_{k mod n} (k counts the writes), A = I, b = 1: every lane is the plain residual stream.
// A parameter rule knows constants only, so `hc.read` and `hc.mix` hold the distance from that start (0) and
// the op adds e_k and I; `hc.write` is b. None is decayed, so optimisers do the same with either form.
// Shapes: X (B, T, n, C); h, o, y (B, T, C); a, b (n); A (n, n). Gradients: all sinks as they say; those of
// the scalars are sums over the shard's elements in double.
#include "plumb/kernel/rows.h"
#include "plumb/residual/residual.h"

namespace plumb {
namespace {

// Lane j of X (rows·n, C) as (rows, C).
template <class R>
View<R> lane(View<R> x, std::int64_t n, std::int64_t j) {
  return {x.data + j * x.stride, x.rows / n, x.cols, x.stride * n};
}
template <class R>
Sink<R> lane(Sink<R> s, std::int64_t n, std::int64_t j) {
  return s ? Sink<R>{lane(s.v, n, j), s.overwrite} : s;
}
template <class R>
void put(const Sink<R>& s, std::int64_t i, double d) {
  R& to = s.v.data[i];
  to = static_cast<R>(s.overwrite ? d : static_cast<double>(to) + d);
}

template <class R>
class OpenLanesOp final : public Op<R> {
 public:
  explicit OpenLanesOp(std::int64_t n) : n_(n) {}
  OpInfo info() const override { return {.kind = "lanes_open"}; }
  void forward(Run<R>& r) const override {
    for (std::int64_t j = 0; j < n_; ++j) pass(1, r.in(0), Sink<R>{lane(r.out(), n_, j), true});
  }
  void backward(Run<R>& r) const override {
    const Sink<R> dx = r.din(0);
    for (std::int64_t j = 0; j < n_; ++j)
      pass(1, lane(r.dout(), n_, j), Sink<R>{dx.v, dx.overwrite && j == 0});
  }

 private:
  std::int64_t n_;
};

template <class R>
class CloseLanesOp final : public Op<R> {
 public:
  explicit CloseLanesOp(std::int64_t n) : n_(n) {}
  OpInfo info() const override { return {.kind = "lanes_close"}; }
  void forward(Run<R>& r) const override {
    for (std::int64_t j = 0; j < n_; ++j) pass(1, lane(r.in(0), n_, j), Sink<R>{r.out(), j == 0});
  }
  void backward(Run<R>& r) const override {
    for (std::int64_t j = 0; j < n_; ++j) pass(1, r.dout(), lane(r.din(0), n_, j));
  }

 private:
  std::int64_t n_;
};

// Inputs: X, the distance of a from e_k.
template <class R>
class ReadLanesOp final : public Op<R> {
 public:
  ReadLanesOp(std::int64_t n, std::int64_t k) : n_(n), k_(k) {}
  OpInfo info() const override { return {.kind = "lanes_read"}; }

  void forward(Run<R>& r) const override {
    for (std::int64_t j = 0; j < n_; ++j) pass(a(r, j), lane(r.in(0), n_, j), Sink<R>{r.out(), j == 0});
  }

  void backward(Run<R>& r) const override {
    const auto dh = r.dout();
    for (std::int64_t j = 0; j < n_; ++j) {
      pass(a(r, j), dh, lane(r.din(0), n_, j));
      if (auto da = r.din(1)) put(da, j, dot(dh, lane(r.in(0), n_, j)));
    }
  }

 private:
  double a(const Run<R>& r, std::int64_t j) const {
    return static_cast<double>(r.in(1).data[j]) + (j == k_ ? 1 : 0);
  }
  std::int64_t n_, k_;
};

// Inputs: X, o, the distance of A from I, b.
template <class R>
class WriteLanesOp final : public Op<R> {
 public:
  explicit WriteLanesOp(std::int64_t n) : n_(n) {}
  OpInfo info() const override { return {.kind = "lanes_write"}; }

  void forward(Run<R>& r) const override {
    for (std::int64_t i = 0; i < n_; ++i) {
      const Sink<R> y{lane(r.out(), n_, i), false};
      pass(b(r, i), r.in(1), Sink<R>{y.v, true});
      for (std::int64_t j = 0; j < n_; ++j) pass(mix(r, j, i), lane(r.in(0), n_, j), y);
    }
  }

  void backward(Run<R>& r) const override {
    const Sink<R> dx = r.din(0), d_o = r.din(1), dmix = r.din(2), db = r.din(3);
    for (std::int64_t i = 0; i < n_; ++i) {
      const auto dy = lane(r.dout(), n_, i);
      for (std::int64_t j = 0; j < n_; ++j) {
        const Sink<R> to = lane(dx, n_, j);
        pass(mix(r, j, i), dy, Sink<R>{to.v, to.overwrite && i == 0});
        if (dmix) put(dmix, j * n_ + i, dot(dy, lane(r.in(0), n_, j)));
      }
      pass(b(r, i), dy, Sink<R>{d_o.v, d_o.overwrite && i == 0});
      if (db) put(db, i, dot(dy, r.in(1)));
    }
  }

 private:
  double mix(const Run<R>& r, std::int64_t j, std::int64_t i) const {
    return static_cast<double>(r.in(2).row(j)[i]) + (i == j ? 1 : 0);
  }
  static double b(const Run<R>& r, std::int64_t i) { return static_cast<double>(r.in(3).data[i]); }
  std::int64_t n_;
};

template <class R>
class HyperConnections final : public Residual<R> {
 public:
  explicit HyperConnections(const DecoderSpec& s) : n_(s.residual_lanes) {}

  Value open(Builder<R>& b, Value embedded) override {
    Shape lanes = b.shape(embedded);
    lanes.dims.insert(lanes.dims.end() - 1, Dim{'N', n_});
    const Value x =
        b.node1(std::make_unique<OpenLanesOp<R>>(n_), spec("embed.lanes", {embedded}, lanes, false));
    b.expected_var(x, b.expected_var(embedded));
    return x;
  }

  typename Residual<R>::In enter(Builder<R>& b, Value stream, const Site& s) override {
    const Value a = scalars(b, s, "read", Shape{Dim{'N', n_}}, 0);
    const Value h = b.node1(std::make_unique<ReadLanesOp<R>>(n_, s.write % n_),
                            spec(s.name() + ".read", {stream, a}, one_lane(b.shape(stream)), true));
    b.expected_var(h, b.expected_var(stream));
    return {stream, h};
  }

  Value leave(Builder<R>& b, Value shortcut, Value branch, const Site& s) override {
    shortcut = b.point(s.name() + ".skip", shortcut);
    branch = b.point(s.name() + ".write", branch);
    require_same_shape("lanes_write", s.name(), one_lane(b.shape(shortcut)), b.shape(branch));
    const Value mix = scalars(b, s, "mix", Shape{Dim{'N', n_}, Dim{'N', n_}}, 0);
    const Value w = scalars(b, s, "write", Shape{Dim{'N', n_}}, 1);
    const Value y = b.node1(std::make_unique<WriteLanesOp<R>>(n_),
                            spec(s.name() + ".add", {shortcut, branch, mix, w}, b.shape(shortcut), true));
    b.expected_var(y, b.expected_var(shortcut) + b.expected_var(branch));
    return y;
  }

  Value close(Builder<R>& b, Value stream) override {
    const Value y = b.node1(std::make_unique<CloseLanesOp<R>>(n_),
                            spec("lanes.sum", {stream}, one_lane(b.shape(stream)), false));
    b.expected_var(
        y, static_cast<double>(n_ * n_) * b.expected_var(stream));  // the lanes are equal at the start
    return y;
  }

 private:
  static Shape one_lane(Shape s) {
    s.dims.erase(s.dims.end() - 2);
    return s;
  }
  static NodeSpec spec(std::string name, std::vector<Value> in, const Shape& out, bool reads_in) {
    return {.name = std::move(name),
            .in = std::move(in),
            .out = {out},
            .backward_reads_in = reads_in,
            .backward_reads_out = false};
  }
  static Value scalars(Builder<R>& b, const Site& s, const std::string& which, Shape shape, double start) {
    return b.param({.name = s.name() + ".hc." + which,
                    .role = Role::residual_gain,
                    .shape = std::move(shape),
                    .layer = s.layer},
                   {.scale = start, .decay = 0});
  }
  std::int64_t n_;
};

std::string hyper_connections_refuses(const DecoderSpec& s) {
  if (s.placement == "post")
    return "a norm after the addition would normalise every lane; use placement = 'pre'";
  if (s.residual_lanes < 2)
    return fmt::format("residual_lanes = {}; hyper-connections need at least 2", s.residual_lanes);
  return {};
}

}  // namespace

namespace entries::residual {
extern constexpr ResidualEntry hyper_connections = residual_entry<HyperConnections>({
    .name = "hyper_connections",
    .purpose = "Several streams with learned mixing: the model chooses between depth and width itself.",
    .formula = "h = sum_j a_j X_j;  X' = A^T X + b o;  n lanes, opened as copies, closed as their sum",
    .paper = "Zhu et al. 2024, arXiv 2409.19606 (static form)",
    .pitfalls = "The stream is n times as wide: points on it have n rows a position. The scalars must not be "
                "decayed.",
    .fields = "model.residual_lanes",
    .refuses = hyper_connections_refuses,
});
}  // namespace entries::residual

}  // namespace plumb
