// Mixture of experts: y = Σ_c w_c expert_{e_c}(x) over the k likeliest experts of a softmax router, w
// renormalised over them; an expert is out(gelu(in(x))). Shazeer et al. 2017, arXiv 1701.06538; renormalised
// weights: Jiang et al. 2024 (Mixtral), arXiv 2401.04088.
//
//   u = dy W_out;  dw_c = gelu(h)·u + b_out·dy;  dh = w_c u gelu'(h)
//   dW_out = Σ (w_c dy) gelu(h)^T;  dW_in = Σ dh x^T;  dx = Σ_c dh W_in
//
// Shapes: x, y (B, T, C); logits (B, T, E); W_in (F, C), W_out (C, F); kept: prob (B, T, E), lse (B, T, 1),
// chosen experts and weights (B, T, k), the experts' pre-activations h (B, T, k F), counts (E). The (row,
// choice) pairs of an expert, in order of rows, are gathered into tiles of 32 rows, zero where there are
// fewer, so every product has one shape and the bits of a row do not depend on how many rows chose its
// expert. Gradients: dx and dlogits as their sinks say; parameters sum over tiles in order, an expert that
// nobody chose gets 0.
#include <algorithm>

#include "plumb/ffn/ffn.h"
#include "plumb/kernel/moe_router.h"
#include "plumb/kernel/rows.h"
#include "plumb/plan/linear.h"
#include "plumb/tensor/arena.h"

namespace plumb {
namespace {

constexpr std::int64_t tile = 32;

struct MoeSizes {
  std::int64_t n_expert, k, c, f;
  bool bias;
};

template <class R>
class MoeOp final : public Op<R> {
 public:
  MoeOp(const MoeSizes& s, double gain) : s_(s), act_{.act = Act::gelu, .gain = gain} {}
  OpInfo info() const override { return {.kind = "moe"}; }

  std::size_t prepare(const Run<R>& r, ProductCache<R>& cache) override {
    const auto [n_expert, k, c, f, bias] = s_;
    const auto get = [&](ProductShape shape) {  // tiles without gaps
      shape.operands = r.operands();
      return cache.get(shape);
    };
    const bool steady = r.mode() == Mode::eval;
    in_ = get({.m = tile, .n = f, .k = c, .trans_b = true, .bias = bias, .steady_rows = steady});
    out_ = get({.m = tile, .n = c, .k = f, .trans_b = true, .bias = bias, .steady_rows = steady});
    std::vector<const Product<R>*> all{in_, out_};
    if (r.mode() == Mode::train) {
      u_ = get({.m = tile, .n = f, .k = c});
      dx_ = get({.m = tile, .n = c, .k = f});
      for (const bool add : {false, true}) {
        dw_out_[add] = get({.m = c, .n = f, .k = tile, .trans_a = true, .accumulate = add});
        dw_in_[add] = get({.m = f, .n = c, .k = tile, .trans_a = true, .accumulate = add});
      }
      all.insert(all.end(), {u_, dx_, dw_out_[0], dw_out_[1], dw_in_[0], dw_in_[1]});
    }
    product_scratch_ = 0;
    for (const auto* p : all)
      product_scratch_ = std::max(product_scratch_, round_up(p->scratch_bytes(), cache_line));
    return Scratch(s_, r.in(0).rows, product_scratch_, nullptr).bytes;
  }

  void forward(Run<R>& r) const override {
    const auto x = r.in(0);
    const auto prob = r.kept(prob_), lse = r.kept(lse_), index = r.kept(index_), weight = r.kept(weight_);
    moe_route(r.in(1), prob, lse, index, weight);
    *r.out(1).data = static_cast<R>(moe_balance(View<const R>(prob), View<const R>(index), r.kept(count_)));
    *r.out(2).data = static_cast<R>(moe_z(View<const R>(lse)));
    if (auto load = r.stat(0)) std::copy_n(r.kept(count_).data, s_.n_expert, load.data);

    const View<R> y = r.out(), h = r.kept(h_);
    for (std::int64_t i = 0; i < y.rows; ++i) std::fill_n(y.row(i), s_.c, R(0));
    Scratch t(s_, x.rows, product_scratch_, r.scratch());
    each_tile(View<const R>(index), t, [&](std::int64_t e, std::int64_t, std::span<const Pair> pairs) {
      gather(pairs, s_.c, t.x, [&](Pair p) { return x.row(p.row); });
      in_->run(t.x, w_in(r, e).data, b_in(r, e), t.h, t.products);
      activation_forward<R>(act_, t.view(t.h, s_.f), t.view(t.act, s_.f));
      out_->run(t.act, w_out(r, e).data, b_out(r, e), t.y, t.products);
      for (std::size_t i = 0; i < pairs.size(); ++i) {
        const auto [row, choice] = pairs[i];
        std::copy_n(t.h + static_cast<std::int64_t>(i) * s_.f, s_.f, h.row(row) + choice * s_.f);
        const R w = weight.row(row)[choice];
        const R* from = t.y + static_cast<std::int64_t>(i) * s_.c;
        for (std::int64_t j = 0; j < s_.c; ++j) y.row(row)[j] += w * from[j];
      }
    });
  }

  void backward(Run<R>& r) const override {
    const View<const R> x = r.in(0), dy = r.dout(0), index = r.kept(index_), weight = r.kept(weight_),
                        h = r.kept(h_);
    const Sink<R> dx = r.din(0);
    if (dx && dx.overwrite)
      for (std::int64_t i = 0; i < dx.v.rows; ++i) std::fill_n(dx.v.row(i), s_.c, R(0));
    Scratch t(s_, x.rows, product_scratch_, r.scratch());
    clear_unchosen(r);
    each_tile(index, t, [&](std::int64_t e, std::int64_t nth, std::span<const Pair> pairs) {
      gather(pairs, s_.f, t.h, [&](Pair p) { return h.row(p.row) + p.choice * s_.f; });
      gather(pairs, s_.c, t.y, [&](Pair p) { return dy.row(p.row); });
      activation_forward<R>(act_, t.view(t.h, s_.f), t.view(t.act, s_.f));
      u_->run(t.y, w_out(r, e).data, nullptr, t.u, t.products);
      const R* bias = b_out(r, e);
      for (std::size_t i = 0; i < pairs.size(); ++i) {
        const auto [row, choice] = pairs[i];
        R *u = t.u + static_cast<std::int64_t>(i) * s_.f, *g = t.y + static_cast<std::int64_t>(i) * s_.c;
        const R* act = t.act + static_cast<std::int64_t>(i) * s_.f;
        double dw = 0;
        for (std::int64_t j = 0; j < s_.f; ++j) dw += static_cast<double>(act[j]) * static_cast<double>(u[j]);
        if (bias)
          for (std::int64_t j = 0; j < s_.c; ++j)
            dw += static_cast<double>(bias[j]) * static_cast<double>(g[j]);
        t.dweight[row * s_.k + choice] = static_cast<R>(dw);
        const R w = weight.row(row)[choice];
        for (std::int64_t j = 0; j < s_.f; ++j) u[j] *= w;
        for (std::int64_t j = 0; j < s_.c; ++j) g[j] *= w;
      }
      const View<R> dh = t.view(t.u, s_.f);
      activation_backward<R>(act_, dh, t.view(t.h, s_.f), {t.view(t.dh, s_.f), true});
      add_to(dw_out_, r.din(slot(e, 1)), nth, t.y, t.act, t);
      if (dx || r.din(slot(e, 0))) gather(pairs, s_.c, t.x, [&](Pair p) { return x.row(p.row); });
      add_to(dw_in_, r.din(slot(e, 0)), nth, t.dh, t.x, t);
      if (s_.bias) {
        column_sums<R>(t.view(t.dh, s_.f), of_tile(r.din(slot(e, 2)), nth));
        column_sums<R>(t.view(t.y, s_.c), of_tile(r.din(slot(e, 3)), nth));
      }
      if (!dx) return;
      dx_->run(t.dh, w_in(r, e).data, nullptr, t.x, t.products);
      for (std::size_t i = 0; i < pairs.size(); ++i)
        for (std::int64_t j = 0; j < s_.c; ++j)
          dx.v.row(pairs[i].row)[j] += t.x[static_cast<std::int64_t>(i) * s_.c + j];
    });
    moe_route_backward<R>(r.kept(prob_), r.kept(lse_), index, weight, r.kept(count_),
                          {t.dweight, x.rows, s_.k, s_.k}, static_cast<double>(*r.dout(1).data),
                          static_cast<double>(*r.dout(2).data), r.din(1));
  }

 private:
  struct Pair {
    std::int64_t row, choice;
  };

  // The parts of a worker's scratch, cut from `base`.
  struct Scratch {
    Scratch(const MoeSizes& s, std::int64_t rows, std::size_t product_bytes, void* base) {
      auto* at = static_cast<std::byte*>(base);
      auto take = [&]<class T>(T*& to, std::int64_t n) {
        to = base ? reinterpret_cast<T*>(at + bytes) : nullptr;
        bytes += round_up(static_cast<std::size_t>(n) * sizeof(T), cache_line);
      };
      take(products, static_cast<std::int64_t>(product_bytes));
      for (R** to : {&x, &y}) take(*to, tile * s.c);
      for (R** to : {&h, &act, &u, &dh}) take(*to, tile * s.f);
      take(dweight, rows * s.k);
      take(pairs, rows * s.k);
    }
    View<R> view(R* p, std::int64_t cols) const { return {p, tile, cols, cols}; }
    std::size_t bytes = 0;
    std::byte* products;
    R *x, *y, *h, *act, *u, *dh, *dweight;
    Pair* pairs;
  };

  enum Kept : std::uint8_t { prob_, lse_, index_, weight_, h_, count_ };

  // Inputs: x, logits, then of each expert W_in, W_out and, with biases, b_in, b_out.
  std::size_t slot(std::int64_t e, std::int64_t which) const {
    return static_cast<std::size_t>(2 + e * (s_.bias ? 4 : 2) + which);
  }
  View<const R> w_in(const Run<R>& r, std::int64_t e) const { return r.in(slot(e, 0)); }
  View<const R> w_out(const Run<R>& r, std::int64_t e) const { return r.in(slot(e, 1)); }
  const R* b_in(const Run<R>& r, std::int64_t e) const { return s_.bias ? r.in(slot(e, 2)).data : nullptr; }
  const R* b_out(const Run<R>& r, std::int64_t e) const { return s_.bias ? r.in(slot(e, 3)).data : nullptr; }

  // f(expert, which tile of it, pairs) for experts in order, pairs in order of rows.
  template <class F>
  void each_tile(View<const R> index, const Scratch& t, const F& f) const {
    for (std::int64_t e = 0; e < s_.n_expert; ++e) {
      std::int64_t n = 0;
      for (std::int64_t i = 0; i < index.rows; ++i)
        for (std::int64_t c = 0; c < s_.k; ++c)
          if (static_cast<std::int64_t>(index.row(i)[c]) == e) t.pairs[n++] = {i, c};
      for (std::int64_t at = 0; at < n; at += tile)
        f(e, at / tile,
          std::span<const Pair>(t.pairs + at, static_cast<std::size_t>(std::min(tile, n - at))));
    }
  }

  template <class F>
  static void gather(std::span<const Pair> pairs, std::int64_t cols, R* to, const F& row) {
    for (std::size_t i = 0; i < pairs.size(); ++i)
      std::copy_n(row(pairs[i]), cols, to + static_cast<std::int64_t>(i) * cols);
    const auto n = static_cast<std::int64_t>(pairs.size());
    std::fill_n(to + n * cols, (tile - n) * cols, R(0));
  }

  static Sink<R> of_tile(Sink<R> s, std::int64_t nth) { return {s.v, s.overwrite && nth == 0}; }

  // dw (+)= a^T b over the rows of a tile.
  static void add_to(const Product<R>* const (&p)[2], Sink<R> dw, std::int64_t nth, const R* a, const R* b,
                     const Scratch& t) {
    if (dw) p[of_tile(dw, nth).overwrite ? 0 : 1]->run(a, b, nullptr, dw.v.data, t.products);
  }

  void clear_unchosen(const Run<R>& r) const {
    for (std::int64_t e = 0; e < s_.n_expert; ++e) {
      if (r.kept(count_).data[e] > 0) continue;
      for (std::int64_t which = 0; which < (s_.bias ? 4 : 2); ++which)
        if (const Sink<R> d = r.din(slot(e, which)); d && d.overwrite)
          for (std::int64_t i = 0; i < d.v.rows; ++i) std::fill_n(d.v.row(i), d.v.cols, R(0));
    }
  }

  MoeSizes s_;
  Activation act_;
  std::size_t product_scratch_ = 0;
  const Product<R>*in_ = nullptr, *out_ = nullptr, *u_ = nullptr, *dx_ = nullptr;
  const Product<R>*dw_out_[2] = {}, *dw_in_[2] = {};
};

template <class R>
class Moe final : public Ffn<R> {
 public:
  explicit Moe(const DecoderSpec& s) : s_(s) {}

  Value build(Builder<R>& b, Value x, const std::string& name, int layer) const override {
    const std::int64_t n = s_.ffn.n_expert, k = s_.ffn.top_k;
    const Shape shape = b.shape(x);
    const Dim B = shape.dims[0], T = shape.dims[1], C = shape.dims.back(), F{'F', s_.d_ff, true}, E{'E', n};
    NodeSpec node{.name = name + ".moe", .in = {x}};
    node.in.push_back(b.linear(x, {name + ".router", E, Role::router, false, layer}));
    for (std::int64_t e = 0; e < n; ++e) {
      const std::string expert = name + ".experts." + std::to_string(e);
      node.in.push_back(b.weight({expert + ".in", F, Role::ffn_in, s_.ffn.bias, layer}, C));
      node.in.push_back(b.weight({expert + ".out", C, Role::ffn_out, s_.ffn.bias, layer}, F));
      if (!s_.ffn.bias) continue;
      node.in.push_back(b.param({expert + ".in.bias", Role::bias, Shape{F}, C.n, F.n, layer}));
      node.in.push_back(b.param({expert + ".out.bias", Role::bias, Shape{C}, F.n, C.n, layer}));
    }
    const Dim one{}, chosen{'1', k};
    node.out = {shape, Shape{one}, Shape{one}};
    node.kept = {Shape{B, T, E},
                 Shape{B, T, one},
                 Shape{B, T, chosen},
                 Shape{B, T, chosen},
                 Shape{B, T, Dim{'F', k * F.n, true}},
                 Shape{E}};
    node.stats = {{name + ".load", Shape{E}}};
    node.backward_reads_out = false;
    const MoeSizes sizes{n, k, C.n, F.n, s_.ffn.bias};
    const auto made = b.node(std::make_unique<MoeOp<R>>(sizes, b.activation_gain("gelu")), std::move(node));
    b.aux_loss(name + ".balance", made[1], s_.ffn.balance_loss);
    b.aux_loss(name + ".router_z", made[2], s_.ffn.router_z_loss);
    return b.point(name + ".out", made[0]);
  }

 private:
  DecoderSpec s_;
};

std::string moe_refuses(const DecoderSpec& s) {
  if (s.ffn.n_expert < 1) return fmt::format("ffn.n_expert = {}; there must be at least 1", s.ffn.n_expert);
  if (s.ffn.top_k < 1 || s.ffn.top_k > s.ffn.n_expert)
    return fmt::format("ffn.top_k = {}; it must lie between 1 and ffn.n_expert = {}", s.ffn.top_k,
                       s.ffn.n_expert);
  if (s.init.scheme == "fixup")
    return "Fixup's scalars have no place inside an expert; use another init.scheme";
  return {};
}

}  // namespace

namespace entries::ffn {
extern constexpr FfnEntry moe = ffn_entry<Moe>({
    .name = "moe",
    .purpose = "More parameters at the same work a token: each token goes to few of many experts.",
    .formula = "y = sum over the top k experts of w_e out_e(gelu(in_e(x))), w = softmax of the router over "
               "the chosen",
    .paper = "Shazeer et al. 2017, arXiv 1701.06538; Fedus et al. 2021, arXiv 2101.03961; Jiang et al. 2024, "
             "arXiv 2401.04088",
    .pitfalls =
        "Without the balance loss the router collapses onto few experts; an expert that nobody chooses gets "
        "no "
        "gradient. Weights for k = 1 are always 1, so the router then learns from the auxiliary losses only.",
    .fields = "model.d_ff, model.ffn.bias, model.ffn.eight_thirds, model.ffn.multiple_of, "
              "model.ffn.n_expert, model.ffn.top_k, model.ffn.balance_loss, "
              "model.ffn.router_z_loss",
    .refuses = moe_refuses,
});
}  // namespace entries::ffn

}  // namespace plumb
