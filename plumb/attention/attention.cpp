// Causal attention as nodes: the tiled op, and the composed twin whose scores and weights can be looked at.
//
//   s[i][j] = scale q_i.k_j + bias(i - j),  j <= i;   p = softmax(s);   ctx_i = Σ_j p[i][j] v_j
//   dp = dctx v^T;  ds = p (dp - Σ_j p dp);  dq = scale ds k;  dk = scale ds^T q;  dv = p^T dctx
//
// Vaswani et al. 2017, arXiv 1706.03762, eq. 1; tiles: Dao et al. 2022, arXiv 2205.14135.
// Shapes: q, k, v, ctx (B, T, H·D); scores, weights (B, H, T, T), −inf and 0 where masked.
// Gradients: dq, dk, dv as their sinks say; the bias table's adds over tiles.
#include "plumb/attention/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "plumb/base/error.h"
#include "plumb/kernel/attention.h"

namespace plumb {
namespace {

template <class R>
void clear_if_overwriting(const Sink<R>& s) {
  if (s && s.overwrite)
    for (std::int64_t i = 0; i < s.v.rows; ++i) std::fill_n(s.v.row(i), s.v.cols, R(0));
}

// Inputs: q, k, v and, with a biasing position code, its table. Kept: log-sum-exp (B, T, H).
template <class R>
class TiledAttentionOp final : public Op<R> {
 public:
  TiledAttentionOp(std::int64_t n_head, double scale, const AttentionContext<R>& c)
      : n_head_(n_head), scale_(scale), bias_(c.bias), has_table_(c.table.id >= 0) {}
  OpInfo info() const override { return {.kind = "attention"}; }

  std::size_t prepare(const Run<R>& r, ProductCache<R>&) override {
    return attention_scratch<R>(shape(r, r.sequences())) * sizeof(R);
  }

  void forward(Run<R>& r) const override {
    over_sequences(r, [&](std::int64_t at, std::int64_t n) {
      auto cut = [&](auto v) { return v ? v.slice(at, n) : v; };
      attention_forward<R>(shape(r, n / block(r)), cut(r.in(0)), cut(r.in(1)), cut(r.in(2)), bias_.get(), table(r),
                           cut(r.out()), cut(r.kept()), cut(r.stat(0)), cut(r.stat(1)), static_cast<R*>(r.scratch()));
    });
  }

  void backward(Run<R>& r) const override {
    const Sink<R> dtable = has_table_ ? r.din(3) : Sink<R>{};
    clear_if_overwriting(dtable);
    auto run = [&](std::int64_t at, std::int64_t n) {
      auto cut = [&](auto v) { return v ? v.slice(at, n) : v; };
      auto sink = [&](std::size_t i) {
        const Sink<R> s = r.din(i);
        return Sink<R>{cut(s.v), s.overwrite};
      };
      attention_backward<R>(shape(r, n / block(r)), cut(r.in(0)), cut(r.in(1)), cut(r.in(2)), bias_.get(), table(r),
                            cut(View<const R>(r.out())), cut(View<const R>(r.kept())), cut(r.dout()), sink(0), sink(1),
                            sink(2), dtable.v, static_cast<R*>(r.scratch()));
    };
    if (dtable)
      run(0, r.in(0).rows);  // all sequences add to one table
    else
      over_sequences(r, run);
  }

 private:
  static std::int64_t block(const Run<R>& r) { return r.in(0).rows / r.sequences(); }
  View<const R> table(const Run<R>& r) const { return has_table_ ? r.in(3) : View<const R>{}; }
  AttentionShape shape(const Run<R>& r, std::int64_t n_seq) const {
    const std::int64_t d = r.in(0).cols / n_head_;
    return {n_seq, block(r), n_head_, r.in(1).cols / d, d, scale_};
  }
  // Rows of a piece: whole sequences.
  template <class F>
  static void over_sequences(const Run<R>& r, const F& f) {
    const std::int64_t t = block(r), rows = r.in(0).rows;
    const std::int64_t piece = std::max<std::int64_t>(1, std::min(r.piece_rows() / t, r.sequences())) * t;
    r.parallel((rows + piece - 1) / piece, [&](std::int64_t i) { f(i * piece, std::min(piece, rows - i * piece)); });
  }
  std::int64_t n_head_;
  double scale_;
  std::shared_ptr<const ScoreBias<R>> bias_;
  bool has_table_;
};

// -- decoding

// One query a call, against the keys and values of the calls before, which lie in state: (context, H·D) each, oldest first.
// At `context` positions the oldest makes room. Sums in double, as in the plain twin.
template <class R>
class CachedAttentionOp final : public Op<R> {
 public:
  CachedAttentionOp(std::int64_t n_head, double scale, const AttentionContext<R>& c)
      : n_head_(n_head), scale_(scale), bias_(c.bias), has_table_(c.table.id >= 0) {}
  OpInfo info() const override { return {.kind = "attention"}; }

  std::size_t prepare(const Run<R>& r, ProductCache<R>&) override {
    return static_cast<std::size_t>(r.state(0).rows) * (sizeof(R) + sizeof(double));
  }

  void forward(Run<R>& r) const override {
    const View<R> keys = r.state(0), values = r.state(1);
    const std::int64_t n = std::min(r.position() + 1, keys.rows), d = r.in(0).cols / n_head_;
    append(keys, r.in(1), r.position());
    append(values, r.in(2), r.position());
    auto* p = static_cast<double*>(r.scratch());
    R* s = reinterpret_cast<R*>(p + keys.rows);
    for (std::int64_t h = 0; h < n_head_; ++h) {
      const R* q = r.in(0).row(0) + h * d;
      for (std::int64_t j = 0; j < n; ++j) {
        double dot = 0;
        for (std::int64_t k = 0; k < d; ++k) dot += static_cast<double>(q[k]) * static_cast<double>((keys.row(j) + h * d)[k]);
        s[j] = static_cast<R>(scale_ * dot);
      }
      if (bias_) bias_->add({s, 1, n, n}, static_cast<int>(h), n - 1, 0, has_table_ ? r.in(3) : View<const R>{});
      double top = -std::numeric_limits<double>::infinity(), z = 0;
      for (std::int64_t j = 0; j < n; ++j) top = std::max(top, static_cast<double>(s[j]));
      for (std::int64_t j = 0; j < n; ++j) z += p[j] = std::exp(static_cast<double>(s[j]) - top);
      for (std::int64_t k = 0; k < d; ++k) {
        double sum = 0;
        for (std::int64_t j = 0; j < n; ++j) sum += p[j] / z * static_cast<double>((values.row(j) + h * d)[k]);
        (r.out().row(0) + h * d)[k] = static_cast<R>(sum);
      }
    }
  }
  void backward(Run<R>&) const override { fail("[attention] decoding has no gradients"); }

 private:
  static void append(View<R> kept, View<const R> row, std::int64_t position) {
    for (std::int64_t i = 0; position >= kept.rows && i + 1 < kept.rows; ++i)
      std::copy_n(kept.row(i + 1), kept.cols, kept.row(i));
    std::copy_n(row.row(0), kept.cols, kept.row(std::min(position, kept.rows - 1)));
  }
  std::int64_t n_head_;
  double scale_;
  std::shared_ptr<const ScoreBias<R>> bias_;
  bool has_table_;
};

// -- the composed twin: three plain ops

// Sizes of one head of one sequence in the views of a composed op.
struct HeadCut {
  std::int64_t b, h, t, d, n_head;
  template <class R>
  R* row(View<R> x, std::int64_t i) const {  // of q, k, v, ctx
    return x.row(b * t + i) + h * d;
  }
  template <class R>
  View<R> square(View<R> s) const {  // of scores, weights
    return s.slice((b * n_head + h) * t, t);
  }
};

template <class R, class F>
void each_head(const Run<R>& r, std::int64_t rows, std::int64_t cols, std::int64_t n_head, const F& f) {
  const std::int64_t t = rows / r.sequences();
  for (std::int64_t b = 0; b < r.sequences(); ++b)
    for (std::int64_t h = 0; h < n_head; ++h) f(HeadCut{b, h, t, cols / n_head, n_head});
}

template <class R>
class ScoresOp final : public Op<R> {
 public:
  ScoresOp(std::int64_t n_head, double scale, const AttentionContext<R>& c)
      : n_head_(n_head), scale_(scale), bias_(c.bias), has_table_(c.table.id >= 0), mask_(c.mask) {}
  OpInfo info() const override { return {.kind = "attention_scores", .sees_future = !mask_.causal()}; }

  void forward(Run<R>& r) const override {
    each_head(r, r.in(0).rows, r.in(0).cols, n_head_, [&](HeadCut c) {
      const View<R> s = c.square(r.out());
      for (std::int64_t i = 0; i < c.t; ++i)
        for (std::int64_t j = 0; j < c.t; ++j) {
          R dot = 0;
          for (std::int64_t k = 0; k < c.d; ++k) dot += c.row(r.in(0), i)[k] * c.row(r.in(1), j)[k];
          s.row(i)[j] = static_cast<R>(scale_) * dot;
        }
      if (bias_) bias_->add(s, static_cast<int>(c.h), 0, 0, has_table_ ? r.in(2) : View<const R>{});
      const R masked = mask_.finite ? static_cast<R>(mask_.value) : -std::numeric_limits<R>::infinity();
      for (std::int64_t i = 0; i < c.t; ++i)
        std::fill(s.row(i) + mask_.kept(i, c.t), s.row(i) + c.t, masked);
    });
  }

  void backward(Run<R>& r) const override {
    const Sink<R> dq = r.din(0), dk = r.din(1), dtable = has_table_ ? r.din(2) : Sink<R>{};
    clear_if_overwriting(dq);
    clear_if_overwriting(dk);
    clear_if_overwriting(dtable);
    each_head(r, r.in(0).rows, r.in(0).cols, n_head_, [&](HeadCut c) {
      const View<const R> ds = c.square(r.dout());
      for (std::int64_t i = 0; i < c.t; ++i)
        for (std::int64_t j = 0; j < mask_.kept(i, c.t); ++j) {
          const R g = static_cast<R>(scale_) * ds.row(i)[j];
          for (std::int64_t k = 0; k < c.d; ++k) {
            if (dq) c.row(dq.v, i)[k] += g * c.row(r.in(1), j)[k];
            if (dk) c.row(dk.v, j)[k] += g * c.row(r.in(0), i)[k];
          }
        }
      if (dtable) bias_->grad(ds, static_cast<int>(c.h), 0, 0, dtable.v);
    });
  }

 private:
  std::int64_t n_head_;
  double scale_;
  std::shared_ptr<const ScoreBias<R>> bias_;
  bool has_table_;
  Mask mask_;
};

template <class R>
class CausalSoftmaxOp final : public Op<R> {
 public:
  CausalSoftmaxOp(std::int64_t n_head, const Mask& mask) : n_head_(n_head), mask_(mask) {}
  OpInfo info() const override { return {.kind = "attention_softmax"}; }

  void forward(Run<R>& r) const override {
    const View<const R> s = r.in(0);
    const std::int64_t t = s.cols;
    for (std::int64_t row = 0; row < s.rows; ++row) {
      const std::int64_t i = row % t, b = row / (n_head_ * t), h = row / t % n_head_;
      const std::int64_t seen = mask_.seen(i, t);
      const R *x = s.row(row);
      R* p = r.out().row(row);
      R top = x[0], z = 0;
      for (std::int64_t j = 1; j < seen; ++j) top = x[j] > top || std::isnan(x[j]) ? x[j] : top;
      for (std::int64_t j = 0; j < seen; ++j) z += p[j] = std::exp(x[j] - top);
      R expected = 0;
      for (std::int64_t j = 0; j < seen; ++j) {
        p[j] /= z;
        if (p[j] != 0) expected += p[j] * (x[j] - top);
      }
      std::fill(p + seen, p + t, R(0));
      if (auto e = r.stat(0)) e.row(b * t + i)[h] = std::log(z) - expected;
      if (auto m = r.stat(1)) m.row(b * t + i)[h] = top;
    }
  }

  void backward(Run<R>& r) const override {
    const Sink<R> ds = r.din(0);
    if (!ds) return;
    for (std::int64_t row = 0; row < ds.v.rows; ++row) {
      const R *p = r.out().row(row), *dp = r.dout().row(row);
      R* d = ds.v.row(row);
      R dot = 0;
      const std::int64_t seen = mask_.seen(row % ds.v.cols, ds.v.cols),
                         kept = mask_.kept(row % ds.v.cols, ds.v.cols);
      for (std::int64_t j = 0; j < seen; ++j) dot += p[j] * dp[j];
      for (std::int64_t j = 0; j < ds.v.cols; ++j) {
        const R g = j < kept ? p[j] * (dp[j] - dot) : R(0);  // a masked score is a constant
        d[j] = ds.overwrite ? g : d[j] + g;
      }
    }
  }

 private:
  std::int64_t n_head_;
  Mask mask_;
};

template <class R>
class WeightedSumOp final : public Op<R> {
 public:
  WeightedSumOp(std::int64_t n_head, const Mask& mask) : n_head_(n_head), mask_(mask) {}
  OpInfo info() const override { return {.kind = "attention_context"}; }

  void forward(Run<R>& r) const override {
    each_head(r, r.in(1).rows, r.in(1).cols, n_head_, [&](HeadCut c) {
      const View<const R> p = c.square(r.in(0));
      for (std::int64_t i = 0; i < c.t; ++i) {
        R* o = c.row(r.out(), i);
        std::fill_n(o, c.d, R(0));
        for (std::int64_t j = 0; j < mask_.seen(i, c.t); ++j)
          for (std::int64_t k = 0; k < c.d; ++k) o[k] += p.row(i)[j] * c.row(r.in(1), j)[k];
      }
    });
  }

  void backward(Run<R>& r) const override {
    const Sink<R> dp = r.din(0), dv = r.din(1);
    clear_if_overwriting(dp);
    clear_if_overwriting(dv);
    each_head(r, r.in(1).rows, r.in(1).cols, n_head_, [&](HeadCut c) {
      const View<const R> p = c.square(r.in(0));
      for (std::int64_t i = 0; i < c.t; ++i)
        for (std::int64_t j = 0; j < mask_.seen(i, c.t); ++j) {
          R dot = 0;
          for (std::int64_t k = 0; k < c.d; ++k) {
            dot += c.row(r.dout(), i)[k] * c.row(r.in(1), j)[k];
            if (dv) c.row(dv.v, j)[k] += p.row(i)[j] * c.row(r.dout(), i)[k];
          }
          if (dp) c.square(dp.v).row(i)[j] += dot;
        }
    });
  }

 private:
  std::int64_t n_head_;
  Mask mask_;
};

}  // namespace

template <class R>
Value causal_attention(Builder<R>& b, Value q, Value k, Value v, std::int64_t n_head, double scale,
                       const AttentionContext<R>& c, const std::string& name) {
  const Shape shape = b.shape(q);
  const Dim B = shape.dims[0], T = shape.dims[1], H{'H', n_head, true};
  const Shape per_head{B, T, H};
  const std::vector<StatSpec> stats{{name + ".entropy", per_head}, {name + ".max_logit", per_head}};
  // Independent tokens that all get the same weight, as with small logits at init: E over t of 1 / (t + 1).
  double mean_share = 0;
  for (std::int64_t t = 0; t < T.n; ++t) mean_share += 1.0 / static_cast<double>(c.mask.seen(t, T.n) * T.n);
  const double var = b.expected_var(v) * mean_share;
  if (b.context() > 0) {
    if (!c.mask.causal())
      bad_input("a model whose mask shows the future (a fault of its run) cannot write one token at a time; sample from a "
                "run without it");
    const Shape cache{Dim{'T', b.context()}, b.shape(k).dims.back()};
    NodeSpec n{.name = name + ".ctx", .in = {q, k, v}, .out = {shape}};
    if (c.table) n.in.push_back(c.table);
    for (const char* what : {".k_cache", ".v_cache"}) n.state.push_back(b.state({name + what, cache, 0, false}));
    return b.node1(std::make_unique<CachedAttentionOp<R>>(n_head, scale, c), std::move(n));
  }
  NodeSpec n{.name = name + ".ctx", .in = {q, k, v}, .out = {shape}, .kept = {per_head}, .stats = stats};
  if (c.mask.causal() && !b.wants(name + ".scores") && !b.wants(name + ".weights")) {
    if (c.table) n.in.push_back(c.table);
    const Value ctx = b.node1(std::make_unique<TiledAttentionOp<R>>(n_head, scale, c), std::move(n));
    b.expected_var(ctx, var);
    return ctx;
  }
  if (b.shape(k).cols() != shape.cols())
    fail("[attention] {}: scores can be looked at only where every head has its own keys", name);
  NodeSpec s{.name = name + ".scores", .in = {q, k}, .out = {Shape{B, H, T, T}}, .backward_reads_out = false};
  if (c.table) s.in.push_back(c.table);
  const Value scores = b.point(name + ".scores", b.node1(std::make_unique<ScoresOp<R>>(n_head, scale, c), std::move(s)));
  const Value p = b.point(name + ".weights", b.node1(std::make_unique<CausalSoftmaxOp<R>>(n_head, c.mask),
                                                     {.name = name + ".weights",
                                                      .in = {scores},
                                                      .out = {Shape{B, H, T, T}},
                                                      .stats = stats,
                                                      .backward_reads_in = false}));
  const Value ctx = b.node1(std::make_unique<WeightedSumOp<R>>(n_head, c.mask),
                 {.name = name + ".ctx", .in = {p, v}, .out = {shape}, .backward_reads_out = false});
  b.expected_var(ctx, var);
  return ctx;
}

#define PLUMB_INSTANTIATE(R)                                                                             \
  template Value causal_attention(Builder<R>&, Value, Value, Value, std::int64_t, double,                \
                                  const AttentionContext<R>&, const std::string&);
PLUMB_INSTANTIATE(float)
PLUMB_INSTANTIATE(double)
#undef PLUMB_INSTANTIATE

}  // namespace plumb
