// Causal attention as nodes: the tiled op, and the composed twin whose scores and weights can be looked at.
//
//   s[i][j] = cap(scale q_i.k_j) + bias(i - j),  i - W < j <= i;   p = softmax(s);   ctx_i = Σ_j f p[i][j] v_j
//   dp = f dctx v^T;  ds = p (dp - Σ_j p dp);  dq = scale ds k;  dk = scale ds^T q;  dv = (f p)^T dctx
//   f: dropout's factors, in training; 1 otherwise
//
// Vaswani et al. 2017, arXiv 1706.03762, eq. 1; tiles: Dao et al. 2022, arXiv 2205.14135.
// Shapes: q, ctx (B, T, H·D); k, v (B, T, KV·D); scores, weights (B, H, T, T), −inf and 0 where masked.
// Gradients: dq, dk, dv as their sinks say; the bias table's adds over tiles.
#include "plumb/attention/attention.h"

#include <algorithm>
#include <cmath>

#include "plumb/attention/cached.h"
#include "plumb/attention/composed.h"
#include "plumb/attention/head_norm.h"
#include "plumb/base/error.h"
#include "plumb/kernel/attention.h"
#include "plumb/plan/dropout.h"

namespace plumb {
namespace {

// Inputs: q, k, v and, with a biasing position code, its table. Kept: log-sum-exp (B, T, H).
template <class R>
class TiledAttentionOp final : public Op<R> {
 public:
  TiledAttentionOp(const ScoreRule& s, const AttentionContext<R>& c, const Dropout& dropout)
      : s_(s), dropout_(dropout), window_(c.mask.window), bias_(c.bias), has_table_(c.table.id >= 0) {}
  OpInfo info() const override { return {.kind = "attention"}; }

  std::size_t prepare(const Run<R>& r, ProductCache<R>&) override {
    return attention_scratch<R>(shape(r, 0, r.sequences())) * sizeof(R);
  }

  void forward(Run<R>& r) const override {
    over_sequences(r, [&](std::int64_t at, std::int64_t n) {
      auto cut = [&](auto v) { return v ? v.slice(at, n) : v; };
      attention_forward<R>(shape(r, at / block(r), n / block(r)), cut(r.in(0)), cut(r.in(1)), cut(r.in(2)),
                           bias_.get(), table(r), cut(r.out()), cut(r.kept()), cut(r.stat(0)), cut(r.stat(1)),
                           static_cast<R*>(r.scratch()));
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
      attention_backward<R>(shape(r, at / block(r), n / block(r)), cut(r.in(0)), cut(r.in(1)), cut(r.in(2)),
                            bias_.get(), table(r), cut(View<const R>(r.out())), cut(View<const R>(r.kept())),
                            cut(r.dout()), sink(0), sink(1), sink(2), dtable.v, static_cast<R*>(r.scratch()));
    };
    if (dtable)
      run(0, r.in(0).rows);  // all sequences add to one table
    else
      over_sequences(r, run);
  }

 private:
  static std::int64_t block(const Run<R>& r) { return r.in(0).rows / r.sequences(); }
  View<const R> table(const Run<R>& r) const { return has_table_ ? r.in(3) : View<const R>{}; }
  AttentionShape shape(const Run<R>& r, std::int64_t first, std::int64_t n_seq) const {
    return {n_seq,
            block(r),
            s_.n_head,
            s_.n_kv_head,
            r.in(0).cols / s_.n_head,
            s_.scale,
            s_.softcap,
            window_,
            in_call(dropout_, r, first)};
  }
  // Rows of a piece: whole sequences.
  template <class F>
  static void over_sequences(const Run<R>& r, const F& f) {
    const std::int64_t t = block(r), rows = r.in(0).rows;
    const std::int64_t piece = std::max<std::int64_t>(1, std::min(r.piece_rows() / t, r.sequences())) * t;
    r.parallel((rows + piece - 1) / piece,
               [&](std::int64_t i) { f(i * piece, std::min(piece, rows - i * piece)); });
  }
  ScoreRule s_;
  Dropout dropout_;
  std::int64_t window_;
  std::shared_ptr<const ScoreBias<R>> bias_;
  bool has_table_;
};

template <class R>
class RotateOp final : public Op<R> {
 public:
  explicit RotateOp(std::shared_ptr<const Rotation<R>> rotation) : rotation_(std::move(rotation)) {}
  OpInfo info() const override { return {.kind = "rotate"}; }

  void forward(Run<R>& r) const override {
    each_sequence(r, r.in(0).rows, [&](std::int64_t at, std::int64_t t) {
      rotation_->turn(r.in(0).slice(at, t), {r.out().slice(at, t), true}, 0, t, false);
    });
  }

  void backward(Run<R>& r) const override {
    const Sink<R> dx = r.din(0);
    if (!dx) return;
    each_sequence(r, r.dout().rows, [&](std::int64_t at, std::int64_t t) {
      rotation_->turn(r.dout().slice(at, t), {dx.v.slice(at, t), dx.overwrite}, 0, t, true);
    });
  }

 private:
  template <class F>
  static void each_sequence(const Run<R>& r, std::int64_t rows, const F& f) {
    const std::int64_t t = rows / r.sequences();
    r.parallel(r.sequences(), [&](std::int64_t i) { f(i * t, t); });
  }
  std::shared_ptr<const Rotation<R>> rotation_;
};

template <class R>
Value rotated(Builder<R>& b, Value x, const AttentionContext<R>& c, const std::string& name) {
  if (!c.rotation) return x;
  const Value y = b.node1(std::make_unique<RotateOp<R>>(c.rotation), {.name = name,
                                                                      .in = {x},
                                                                      .out = {b.shape(x)},
                                                                      .backward_reads_in = false,
                                                                      .backward_reads_out = false});
  b.expected_var(y, b.expected_var(x));
  return y;
}

}  // namespace

template <class R>
Value causal_attention(Builder<R>& b, Value q, Value k, Value v, const ScoreRule& rule,
                       const AttentionContext<R>& c, const std::string& name) {
  const Shape shape = b.shape(q);
  const Dim B = shape.dims[0], T = shape.dims[1], H{'H', rule.n_head, true};
  const Shape per_head{B, T, H};
  const std::vector<StatSpec> stats{{name + ".entropy", per_head}, {name + ".max_logit", per_head}};
  // Independent tokens that all get the same weight, as with small logits at init: E over t of 1 / (keys that
  // t sees).
  double mean_share = 0;
  for (std::int64_t t = 0; t < T.n; ++t)
    mean_share += 1.0 / static_cast<double>((c.mask.last_seen(t, T.n) - c.mask.first_seen(t)) * T.n);
  const double var = b.expected_var(v) * mean_share;
  if (b.context() > 0) {
    if (!c.mask.causal())
      bad_input(
          "a model whose mask shows the future (a fault of its run) cannot write one token at a time; sample "
          "from a "
          "run without it");
    const Shape cache{Dim{'T', b.context()}, b.shape(k).dims.back()};
    NodeSpec n{.name = name + ".ctx", .in = {q, k, v}, .out = {shape}};
    if (c.table) n.in.push_back(c.table);
    for (const char* what : {".k_cache", ".v_cache"})
      n.state.push_back(b.state({name + what, cache, 0, false}));
    return b.node1(std::make_unique<CachedAttentionOp<R>>(rule, c), std::move(n));
  }
  q = rotated(b, q, c, name + ".q.turned");
  k = rotated(b, k, c, name + ".k.turned");
  const std::string dropped_weights = name + ".weights.dropped";
  const Dropout dropout = dropout_at(c.noise.dropout, c.noise.seed, dropped_weights);
  if (c.mask.causal() && !b.wants(name + ".scores") && !b.wants(name + ".weights")) {
    NodeSpec n{.name = name + ".ctx", .in = {q, k, v}, .out = {shape}, .kept = {per_head}, .stats = stats};
    if (c.table) n.in.push_back(c.table);
    const Value ctx = b.node1(std::make_unique<TiledAttentionOp<R>>(rule, c, dropout), std::move(n));
    b.expected_var(ctx, var);
    return ctx;
  }
  const Shape square{B, H, T, T};
  NodeSpec s{.name = name + ".scores", .in = {q, k}, .out = {square}, .backward_reads_out = false};
  if (rule.softcap > 0) s.kept = {square};
  if (c.table) s.in.push_back(c.table);
  const Value scores =
      b.point(name + ".scores", b.node1(std::make_unique<ScoresOp<R>>(rule, c), std::move(s)));
  Value p = b.point(name + ".weights", b.node1(std::make_unique<CausalSoftmaxOp<R>>(rule.n_head, c.mask),
                                               {.name = name + ".weights",
                                                .in = {scores},
                                                .out = {square},
                                                .stats = stats,
                                                .backward_reads_in = false}));
  if (dropout) p = dropped(b, p, dropout, dropped_weights);
  const Value ctx =
      b.node1(std::make_unique<WeightedSumOp<R>>(rule, c.mask),
              {.name = name + ".ctx", .in = {p, v}, .out = {shape}, .backward_reads_out = false});
  b.expected_var(ctx, var);
  return ctx;
}

template <class R>
Value qk_norm(Builder<R>& b, Value x, const DecoderSpec& s, bool is_query, const std::string& name,
              int layer) {
  const std::string& kind = s.attention.qk_norm;
  if (kind == "none") return x;
  const Shape shape = b.shape(x);
  HeadNorm rule{.heads = kind == "rms_all" ? 1
                         : is_query        ? s.n_head
                                           : s.kv_heads(),
                .eps = s.norm_eps,
                .centred = kind == "layer" || kind == "layer_heads",
                .bias = kind == "layer" && s.norm_bias,
                .l2 = kind == "l2",
                .plus_one = s.norm_gain == "plus_one"};
  rule.temperature = rule.l2 && is_query;
  rule.own_gains = kind == "layer_heads";
  const Dim width{'C', shape.cols() / rule.heads, true};
  const Shape per_head{shape.dims[0], shape.dims[1], Dim{'H', rule.heads, true}};
  NodeSpec n{
      .name = name, .in = {x}, .out = {shape}, .kept = {per_head, per_head}, .backward_reads_out = false};
  const auto param = [&](const char* what, Role role, const Shape& of, double start) {
    n.in.push_back(
        b.param({name + what, role, of, of.cols(), of.cols(), layer}, {ParamRule::Kind::constant, start}));
  };
  double var = 1;
  const Dim gains{'C', rule.own_gains ? shape.cols() : width.n, true};
  if (!rule.l2) param(rule.plus_one ? ".w" : ".gamma", Role::norm_gain, Shape{gains}, rule.plus_one ? 0 : 1);
  if (rule.bias) param(".beta", Role::norm_bias, Shape{width}, 0);
  if (rule.l2) var /= static_cast<double>(width.n);
  if (rule.temperature) {
    // Henry et al. 2020, section 3.3: L is the 97.5th percentile of lengths; here every sequence is as long.
    const double length = std::max(2.0, static_cast<double>(s.block_size)),
                 start = std::log2(length * length - length);
    param(".temperature", Role::scalar, Shape{Dim{}}, start);
    var *= start * start;
  }
  const Value y = b.node1(std::make_unique<HeadNormOp<R>>(rule, width.n), std::move(n));
  b.expected_var(y, var);
  return y;
}

#define PLUMB_INSTANTIATE(R)                                                          \
  template Value causal_attention(Builder<R>&, Value, Value, Value, const ScoreRule&, \
                                  const AttentionContext<R>&, const std::string&);    \
  template Value qk_norm(Builder<R>&, Value, const DecoderSpec&, bool, const std::string&, int);
PLUMB_INSTANTIATE(float)
PLUMB_INSTANTIATE(double)
#undef PLUMB_INSTANTIATE

}  // namespace plumb
