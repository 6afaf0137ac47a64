// BatchNorm over batch and positions, per channel; positions whose target does not count (padding) are left
// out. Ioffe & Szegedy 2015, arXiv 1502.03167, algorithm 1.
//
//   y = (x - mean) / sqrt(var + eps) * gamma + beta     over all B·T values of a channel, biased variance
//   dx = gamma / sqrt(var + eps) (dy - mean(dy) - xhat mean(dy xhat))
//   running ← (1 - rho) running + rho new             unbiased variance; rho = momentum, or 1/k when it is 0
//
// Evaluation normalises with the running statistics: dx = gamma / sqrt(running var + eps) dy.
// Shapes: x, y (B, T, C); gamma, beta, running and pending mean and variance (C); count (1); kept: mean,
// 1/std (C). Gradients: dx, dgamma, dbeta as their sinks say. Forward leaves the batch's statistics pending;
// they become running ones when the step is known to be finite (commit), so an evaluation, a recomputation or
// a replay changes nothing.
#include <algorithm>
#include <cmath>

#include "plumb/kernel/batch_norm.h"
#include "plumb/norm/norm.h"

namespace plumb {
namespace {

constexpr std::int64_t piece = 16;  // channels that one thread does at a time

template <class R>
class BatchNormOp final : public Op<R> {
 public:
  BatchNormOp(double eps, const Affine& a, double momentum, std::int64_t ignore_index)
      : eps_(eps), a_(a), momentum_(momentum), ignore_index_(ignore_index) {}
  OpInfo info() const override { return {.kind = "batch_norm", .cross_batch = true, .sees_future = true}; }

  std::size_t prepare(const Run<R>& r, ProductCache<R>&) override {
    if (r.mode() == Mode::train && r.in(0).rows < 2)
      bad_input(
          "[batch_norm] one value a channel ({} sequence of {} token) has no variance to train with; use a "
          "larger batch or "
          "block",
          r.sequences(), r.in(0).rows / r.sequences());
    return 0;
  }

  void forward(Run<R>& r) const override {
    const CountedRows counted(r.targets(), ignore_index_);
    each_piece(r, [&](std::int64_t at, std::int64_t n) {
      const auto x = r.in(0).columns(at, n);
      const auto mean = r.kept(0).columns(at, n), rstd = r.kept(1).columns(at, n);
      if (r.mode() == Mode::train) {
        batch_norm_statistics(x, eps_, mean, rstd, r.replay() ? View<R>{} : pending_var(r).columns(at, n),
                              counted);
        if (!r.replay()) std::copy_n(mean.data, n, pending_mean(r).data + at);
      } else {
        for (std::int64_t j = 0; j < n; ++j) {
          mean.data[j] = running_mean(r).data[at + j];
          rstd.data[j] =
              static_cast<R>(1 / std::sqrt(static_cast<double>(running_var(r).data[at + j]) + eps_));
        }
      }
      batch_norm_forward(x, View<const R>(mean), View<const R>(rstd), cut(a_.gamma(r), at, n),
                         cut(a_.beta(r), at, n), r.out().columns(at, n));
    });
  }

  void backward(Run<R>& r) const override {
    const CountedRows counted(r.targets(), ignore_index_);
    each_piece(r, [&](std::int64_t at, std::int64_t n) {
      const auto part = [&](Sink<R> s) { return s ? Sink<R>{s.v.columns(at, n), s.overwrite} : s; };
      batch_norm_backward(r.dout().columns(at, n), r.in(0).columns(at, n),
                          View<const R>(r.kept(0).columns(at, n)), View<const R>(r.kept(1).columns(at, n)),
                          cut(a_.gamma(r), at, n), r.mode() == Mode::train, part(r.din(0)),
                          part(a_.dgamma(r)), part(a_.dbeta(r)), counted);
    });
  }

  void commit(Run<R>& r) const override {
    batch_norm_merge(momentum_, View<const R>(pending_mean(r)), View<const R>(pending_var(r)),
                     running_mean(r), running_var(r), r.state(2));
  }

 private:
  static View<R> running_mean(const Run<R>& r) { return r.state(0); }
  static View<R> running_var(const Run<R>& r) { return r.state(1); }
  static View<R> pending_mean(const Run<R>& r) { return r.state(3); }
  static View<R> pending_var(const Run<R>& r) { return r.state(4); }
  static View<const R> cut(View<const R> v, std::int64_t at, std::int64_t n) {
    return v ? v.columns(at, n) : v;
  }
  template <class F>
  static void each_piece(const Run<R>& r, const F& f) {
    const std::int64_t cols = r.in(0).cols;
    r.parallel((cols + piece - 1) / piece,
               [&](std::int64_t i) { f(i * piece, std::min(piece, cols - i * piece)); });
  }
  double eps_;
  Affine a_;
  double momentum_;
  std::int64_t ignore_index_;
};

template <class R>
class BatchNorm final : public Norm<R> {
 public:
  explicit BatchNorm(const DecoderSpec& s)
      : eps_(s.norm_eps), affine_(s), momentum_(s.norm_momentum), ignore_index_(s.ignore_index) {}

  Value build(Builder<R>& b, Value x, const std::string& name, int layer) const override {
    const Shape shape = b.shape(x), channels{shape.dims.back()};
    NodeSpec n{.name = name, .in = {x}, .out = {shape}, .kept = {channels, channels}};
    n.backward_reads_out = false;
    affine_.add_to(b, n, name, shape.dims.back(), layer);
    n.state = {b.state({name + ".running_mean", channels, 0}), b.state({name + ".running_var", channels, 1}),
               b.state({name + ".count", Shape{Dim{}}, 0}),
               b.state({name + ".pending_mean", channels, 0, false}),
               b.state({name + ".pending_var", channels, 1, false})};
    const Value y =
        b.node1(std::make_unique<BatchNormOp<R>>(eps_, affine_, momentum_, ignore_index_), std::move(n));
    b.expected_var(y, 1);
    return y;
  }

 private:
  double eps_;
  Affine affine_;
  double momentum_;
  std::int64_t ignore_index_;
};

}  // namespace

namespace entries::norm {
extern constexpr NormEntry batch = norm_entry<BatchNorm>({
    .name = "batch",
    .purpose = "Each channel at unit scale over the whole batch: what made deep image networks train. Here "
               "to see why language models do not use it.",
    .formula =
        "y = (x - mean x) / sqrt(var x + eps) * gamma + beta, over batch and positions of each feature",
    .paper = "Ioffe & Szegedy 2015, arXiv 1502.03167",
    .pitfalls = "Pools over positions: in a causal model a position sees the future through the statistics, "
                "so training loss "
                "flatters. Evaluation uses running statistics and is another function; sequences of a batch "
                "are coupled, so "
                "the batch runs as one shard.",
    .fields = "model.norm_eps, model.norm_affine, model.norm_bias, model.norm_gain, model.norm_momentum",
});
}  // namespace entries::norm

}  // namespace plumb
