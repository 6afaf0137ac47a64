// Causal attention in tiles of 64 queries x 64 keys, float; double forwards to the plain twin. The formulas
// and what overwrites: kernel/attention.h. Online softmax over key tiles: Milakov & Gimelshein 2018, arXiv
// 1805.02867; tiles and recomputation from lse: Dao et al. 2022, arXiv 2205.14135.
//
//   forward   S = Q (scale K)^T by blocks of 6 query rows; P = exp(S - m);
//             O = P V, rescaled when m grows; o = O / l
//   backward  P = exp(S - lse), dS = P (dO V^T - delta), delta = sum dO O;
//             dV = P^T dO, dK = scale dS^T Q, dQ = dS (scale K)
//
// With dropout's factors F, O takes P F, dS = P (F (dO V^T) - delta) and dV takes P F. With a window the tiles
// before it are left out. With a cap c, S = c tanh(S / c) before the bias, and dS
// goes on times 1 - (S / c)^2.
//
// A block of rows computes only the columns up to its last row; what is masked inside it is replaced by p =
// 0, ds = 0. A product 0 * NaN would still carry a NaN from an invisible position into an earlier row: where
// an input of a product is not finite, tiles that hold masked scores run with blocks of one row, which see
// nothing masked (and give the same bits).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "plumb/kernel/attention_simd.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include <algorithm>
#include <cmath>
#include <limits>

#include "hwy/contrib/math/math-inl.h"
#include "plumb/kernel/attention_tiles.h"
#include "plumb/kernel/tile_product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plumb {
namespace HWY_NAMESPACE {
namespace {

using namespace tiles;

static_assert(kBlockRows <= kMaxBlockRows);

/// What online softmax knows of a row: largest score, sum of e^(s - m), sum of e^(s - m) (s - m).
struct RowState {
  float *m, *l, *w;
};

/// Puts `value` where row i + r (n rows from i, `vecs` vectors) must not look: columns beyond i + r of a
/// diagonal tile.
HWY_INLINE void MaskAbove(float* s, std::size_t i, std::size_t n, std::size_t vecs, float value) {
  const Floats d;
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t v = i / lanes; v < vecs; ++v, s += lanes) {
    const auto column = hn::Iota(d, float(v * lanes));
    auto row = hn::Set(d, float(i));
    float* p = s + i / lanes * lanes;
    for (std::size_t r = 0; r < n; ++r, p += kTile, row = hn::Add(row, hn::Set(d, 1.0f)))
      hn::StoreU(hn::IfThenElse(hn::Le(column, row), hn::LoadU(d, p), hn::Set(d, value)), d, p);
  }
}

/// Puts `value` where rows i … i + n - 1 of a tile must not look.
HWY_INLINE void Mask(float* s, const TileAt& t, std::size_t i, std::size_t n, std::size_t vecs, float value) {
  if (t.diagonal()) MaskAbove(s, i, n, vecs, value);
  for (std::size_t r = 0; r < n && t.window > 0; ++r) std::fill_n(s + r * kTile, t.from(i + r), value);
}

HWY_INLINE float RowMax(const float* s, std::size_t vecs) {
  const Floats d;
  auto top = hn::LoadU(d, s);
  for (std::size_t v = 1; v < vecs; ++v) top = hn::Max(top, hn::LoadU(d, s + v * hn::Lanes(d)));
  return MaxLanes(d, top);
}

/// Turns kRows rows of scores into e^(s - shift), and sums them: l = sum e, w = sum e (s - shift) when
/// `entropy`.
template <std::size_t kRows>
HWY_INLINE void ExpRows(float* s, std::size_t vecs, const float* shift, bool entropy, float* l, float* w) {
  const Floats d;
  const std::size_t lanes = hn::Lanes(d);
  FloatVec shifts[kRows], sum[kRows], weighted[kRows], x[kRows], e[kRows];
#pragma GCC unroll 8
  for (std::size_t r = 0; r < kRows; ++r) {
    shifts[r] = hn::Set(d, shift[r]);
    sum[r] = weighted[r] = hn::Zero(d);
  }
  for (std::size_t v = 0; v < vecs; ++v) {
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kRows; ++r)
      e[r] = x[r] = hn::Sub(hn::LoadU(d, s + r * kTile + v * lanes), shifts[r]);
    Exp(d, e);
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kRows; ++r) {
      hn::StoreU(e[r], d, s + r * kTile + v * lanes);
      sum[r] = hn::Add(sum[r], e[r]);
    }
    if (!entropy) continue;
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kRows; ++r)
      weighted[r] = hn::Add(weighted[r], hn::IfThenZeroElse(hn::Eq(e[r], hn::Zero(d)), hn::Mul(e[r], x[r])));
  }
#pragma GCC unroll 8
  for (std::size_t r = 0; r < kRows; ++r) {
    l[r] = SumLanes(d, sum[r]);
    w[r] = entropy ? SumLanes(d, weighted[r]) : 0.0f;
  }
}

/// Turns n rows of scores into e^(s - m) and folds them into their state, row i on. keep[r]: what the row's
/// earlier sums must be multiplied by.
HWY_INLINE void SoftmaxRows(float* s, std::size_t n, std::size_t vecs, bool first, bool entropy,
                            RowState state, std::size_t i, float* keep) {
  float m[kBlockRows], shift[kBlockRows], l[kBlockRows], w[kBlockRows];
  for (std::size_t r = 0; r < n; ++r) {
    m[r] = RowMax(s + r * kTile, vecs);
    if (!first && state.m[i + r] > m[r]) m[r] = state.m[i + r];
    shift[r] = m[r] == -kInf ? 0.0f : m[r];  // a bias may mask a whole tile
  }
  std::size_t r = 0;
  for (; r + 3 <= n; r += 3) ExpRows<3>(s + r * kTile, vecs, shift + r, entropy, l + r, w + r);
  for (; r < n; ++r) ExpRows<1>(s + r * kTile, vecs, shift + r, entropy, l + r, w + r);
  for (r = 0; r < n; ++r, ++i) {
    if (first) {
      state.l[i] = l[r];
      state.w[i] = w[r];
    } else {
      const float change = (state.m[i] == -kInf ? 0.0f : state.m[i]) - shift[r];
      FloatVec grown[1] = {hn::Set(Floats(), change)};
      Exp(Floats(), grown);
      keep[r] = state.l[i] == 0 ? 0.0f : hn::GetLane(grown[0]);
      state.w[i] = keep[r] == 0 ? w[r] : keep[r] * (state.w[i] + state.l[i] * change) + w[r];
      state.l[i] = keep[r] * state.l[i] + l[r];
    }
    state.m[i] = m[r];
  }
}

/// ln x for x >= 0 and for what is not finite.
HWY_INLINE FloatVec LogOfSum(Floats d, FloatVec x) {
  const auto inf = hn::Inf(d);
  const auto usual = hn::And(hn::Lt(x, inf), hn::Gt(x, hn::Zero(d)));
  return hn::IfThenElse(usual, hn::Log(d, x), hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Neg(inf), x));
}

/// Writes lse, entropy and max_logit of a tile of queries. `first`: its first row in the views.
void FinishTile(const ForwardCall& c, std::size_t first, std::size_t rows, std::size_t h, RowState state) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  const Floats d;
  HWY_ALIGN float log_l[kTile];
  for (std::size_t i = 0; i < rows; i += hn::Lanes(d))
    hn::Store(LogOfSum(d, hn::LoadU(d, state.l + i)), d, log_l + i);
  for (std::size_t i = 0; i < rows; ++i) {
    const auto row = static_cast<std::int64_t>(first + i);
    const float m = state.m[i], l = state.l[i];
    c.lse.row(row)[h] = (m == -kInf ? 0.0f : m) + log_l[i];
    if (c.entropy) c.entropy.row(row)[h] = log_l[i] - state.w[i] / l;
    if (c.max_logit) c.max_logit.row(row)[h] = std::isnan(l) && !std::isinf(m) ? kNaN : m;
  }
}

/// s <- c tanh(s / c) on n rows of `vecs` vectors; its slope beside it when `slope`.
HWY_INLINE void Cap(float cap, float* s, std::size_t n, std::size_t vecs, float* slope) {
  const Floats d;
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t r = 0; r < n; ++r)
    for (std::size_t at = r * kTile; at < r * kTile + vecs * lanes; at += lanes) {
      const auto z = hn::Mul(hn::LoadU(d, s + at), hn::Set(d, 1.0f / cap));
      const auto t = hn::IfThenElse(hn::IsNaN(z), z, hn::Tanh(d, z));
      hn::StoreU(hn::Mul(t, hn::Set(d, cap)), d, s + at);
      if (slope) hn::StoreU(hn::NegMulAdd(t, t, hn::Set(d, 1.0f)), d, slope + at);
    }
}

/// Scores of block rows i … i + n of the tile into s: scale q.k, capped, then the bias.
HWY_INLINE void Scores(const AttentionShape& a, const TileAt& t, std::size_t i, std::size_t n, const float* q,
                       std::size_t q_stride, const float* keys, const ScoreBias<float>* bias,
                       View<const float> table, float* s, float* slope) {
  const std::size_t lanes = hn::Lanes(Floats()), cols = t.visible(i + n), vecs = (cols + lanes - 1) / lanes;
  Product(n, vecs * lanes, Size(a.d_head), Left<false>{q + i * q_stride, q_stride}, keys, kTile,
          Result{s, kTile});
  if (a.softcap > 0) Cap(float(a.softcap), s, n, vecs, slope);
  if (bias)
    bias->add({s, std::int64_t(n), std::int64_t(cols), std::int64_t(kTile)}, int(t.head),
              std::int64_t(t.query + i), std::int64_t(t.key), table);
}

HWY_INLINE void ScaleRow(float* row, std::size_t n, float by) {
  const Floats d;
  std::size_t j = 0;
  for (; j + hn::Lanes(d) <= n; j += hn::Lanes(d))
    hn::StoreU(hn::Mul(hn::LoadU(d, row + j), hn::Set(d, by)), d, row + j);
  if (j < n) StoreFirst(hn::Mul(LoadFirst(d, n - j, row + j), hn::Set(d, by)), d, n - j, row + j);
}

/// Dropout's factors of block rows i … i + n of the tile, into f.
HWY_INLINE void DropFactors(const AttentionShape& a, const TileAt& t, std::size_t i, std::size_t n,
                            std::size_t cols, float* f) {
  for (std::size_t r = 0; r < n; ++r) {
    const auto row = std::int64_t(t.head) * a.block + std::int64_t(t.query + i + r);
    dropout_factors<float>(a.dropout, std::int64_t(t.sequence),
                           Dropout::element(row, a.block, std::int64_t(t.key)), {f + r * kTile, cols});
  }
}

/// a <- a b: n rows of `vecs` vectors.
HWY_INLINE void MultiplyAll(float* a, const float* b, std::size_t n, std::size_t vecs) {
  const Floats d;
  for (std::size_t r = 0; r < n; ++r)
    for (std::size_t at = r * kTile; at < r * kTile + vecs * hn::Lanes(d); at += hn::Lanes(d))
      hn::StoreU(hn::Mul(hn::LoadU(d, a + at), hn::LoadU(d, b + at)), d, a + at);
}

/// Adds one tile of keys to a tile of queries: to o, not yet divided by l unless these are the last keys, and
/// the state.
void ForwardTile(const ForwardCall& c, const TileAt& t, View<const float> q, const float* keys,
                 const float* values, std::size_t padded, bool one_by_one, float* s, View<float> o,
                 RowState state) {
  const std::size_t lanes = hn::Lanes(Floats()), head = Size(c.a.d_head);
  const bool first = t.first(), last = t.diagonal();
  const std::size_t step = one_by_one && t.masked() ? 1 : kBlockRows;
  for (std::size_t i = 0; i < t.rows; i += step) {
    const std::size_t n = std::min(step, t.rows - i), cols = t.visible(i + n);
    const std::size_t vecs = (cols + lanes - 1) / lanes;
    Scores(c.a, t, i, n, q.data, Size(q.stride), keys, c.bias, c.table, s, nullptr);
    Mask(s, t, i, n, vecs, -kInf);
    float keep[kBlockRows], factor[kBlockRows];
    SoftmaxRows(s, n, vecs, first, bool(c.entropy), state, i, keep);
    if (c.a.dropout) {
      float* f = s + kMaxBlockRows * kTile;
      DropFactors(c.a, t, i, n, vecs * lanes, f);
      MultiplyAll(s, f, n, vecs);
    }
    for (std::size_t r = 0; r < n; ++r) factor[r] = last ? 1.0f / state.l[i + r] : 1.0f;
    float* out = o.row(std::int64_t(i));
    for (std::size_t r = 0; r < n && !first; ++r)
      ScaleRow(out + std::int64_t(r) * o.stride, head, keep[r] * factor[r]);
    const std::size_t from = t.from(i);
    Product(n, head, std::max(cols, from) - from, Left<false>{s + from, kTile}, values + from * padded,
            padded, Result{out, Size(o.stride), !first, last ? factor : nullptr});
  }
}

void AttentionForward(const ForwardCall& c, float* scratch) {
  const Layout at(c.a);
  float* keys = align(scratch);
  float* values = keys + at.tiles * at.keys();
  float* s = values + at.tiles * at.values();
  float* rows_of = s + 2 * kMaxBlockRows * kTile;
  const RowState state{rows_of, rows_of + kTile, rows_of + 2 * kTile};
  const std::size_t group = Size(c.a.n_head / c.a.n_kv_head), window = Size(c.a.window);
  for (std::size_t n = 0; n < Size(c.a.n_seq); ++n)
    for (std::size_t kv = 0; kv < Size(c.a.n_kv_head); ++kv) {
      bool finite = true;
      for (std::size_t t = 0; t < at.tiles; ++t) {
        const std::size_t first = t * kTile, rows = std::min(kTile, at.block - first);
        PackTransposed(tile_of(c.k, n * at.block + first, rows, kv * at.head, at.head), float(c.a.scale),
                       keys + t * at.keys(), kTile, round_up(rows, 16));
        finite &= PackRows(tile_of(c.v, n * at.block + first, rows, kv * at.head, at.head), 1.0f,
                           values + t * at.values(), at.padded);
      }
      for (std::size_t h = kv * group; h < (kv + 1) * group; ++h)
        for (std::size_t i = 0; i < at.block; i += kTile) {
          const std::size_t rows = std::min(kTile, at.block - i);
          const View<const float> q = tile_of(c.q, n * at.block + i, rows, h * at.head, at.head);
          const View<float> o = tile_of(c.o, n * at.block + i, rows, h * at.head, at.head);
          for (std::size_t j = TileAt::first_tile(i, window); j <= i; j += kTile)
            ForwardTile(c, TileAt{n, h, i, j, rows, std::min(kTile, at.block - j), window}, q,
                        keys + j / kTile * at.keys(), values + j / kTile * at.values(), at.padded, !finite, s,
                        o, state);
          FinishTile(c, n * at.block + i, rows, h, state);
        }
    }
}

/// The tiles in scratch that backward works on.
struct BackwardScratch {
  float *keys_t, *values_t, *keys;  // K scaled and transposed, V transposed, K scaled
  float *q, *d_o;                   // rows
  float *p, *ds;                    // (kTile, kTile)
  float *slope, *factors;           // of the cap and of dropout, a block of rows
  float *delta, *lse;               // a value a query

  BackwardScratch(const Layout& at, float* scratch) {
    keys_t = align(scratch);
    values_t = keys_t + at.keys();
    keys = values_t + at.keys();
    q = keys + at.values();
    d_o = q + at.values();
    p = d_o + at.values();
    ds = p + kTile * kTile;
    slope = ds + kTile * kTile;
    factors = slope + kMaxBlockRows * kTile;
    delta = factors + kMaxBlockRows * kTile;
    lse = delta + kTile;
  }
};

/// s -> p = e^(s - lse) and dp -> ds = p (dp - delta) in place, kRows rows.
template <std::size_t kRows>
HWY_INLINE void ScoreGradRows(float* p, float* ds, std::size_t vecs, const float* lse, const float* delta) {
  const Floats d;
  const std::size_t lanes = hn::Lanes(d);
  FloatVec e[kRows];
  for (std::size_t v = 0; v < vecs; ++v) {
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kRows; ++r)
      e[r] = hn::Sub(hn::LoadU(d, p + r * kTile + v * lanes), hn::Set(d, lse[r]));
    Exp(d, e);
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kRows; ++r) {
      float* g = ds + r * kTile + v * lanes;
      hn::StoreU(e[r], d, p + r * kTile + v * lanes);
      hn::StoreU(hn::Mul(e[r], hn::Sub(hn::LoadU(d, g), hn::Set(d, delta[r]))), d, g);
    }
  }
}

/// Queries of one tile ready: q, d_o packed, lse and delta gathered. Returns whether all of it is finite.
HWY_INLINE bool PackQueries(const BackwardCall& c, const Layout& at, std::size_t first, std::size_t rows,
                            std::size_t h, const BackwardScratch& w) {
  const Floats d;
  const std::size_t lanes = hn::Lanes(d);
  bool finite = PackRows(tile_of(c.q, first, rows, h * at.head, at.head), 1.0f, w.q, at.padded);
  finite &= PackRows(tile_of(c.d_o, first, rows, h * at.head, at.head), 1.0f, w.d_o, at.padded);
  for (std::size_t i = 0; i < rows; ++i) {
    const float* o = c.o.row(std::int64_t(first + i)) + h * at.head;
    auto sum = hn::Zero(d);
    std::size_t j = 0;
    for (; j + lanes <= at.head; j += lanes)
      sum = hn::MulAdd(hn::LoadU(d, w.d_o + i * at.padded + j), hn::LoadU(d, o + j), sum);
    if (j < at.head)
      sum = hn::MulAdd(hn::LoadU(d, w.d_o + i * at.padded + j), LoadFirst(d, at.head - j, o + j), sum);
    w.delta[i] = SumLanes(d, sum);
    w.lse[i] = c.lse.row(std::int64_t(first + i))[h];
    finite &= std::isfinite(w.delta[i]) && std::isfinite(w.lse[i]);
  }
  return finite;
}

/// Where rows i … of one head's gradient tile go; the first product of a tile overwrites if the sink does.
HWY_INLINE Result Into(Sink<float> tile, std::size_t i, bool first, const float* factor = nullptr) {
  return {tile.v.row(std::int64_t(i)), Size(tile.v.stride), !(tile.overwrite && first), factor};
}

/// a <- a b where b is a slope: n rows of `vecs` vectors. What is 0 stays 0.
HWY_INLINE void MultiplyRows(float* a, const float* b, std::size_t n, std::size_t vecs) {
  const Floats d;
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t r = 0; r < n; ++r)
    for (std::size_t at = r * kTile; at < r * kTile + vecs * lanes; at += lanes) {
      const auto x = hn::LoadU(d, a + at);
      hn::StoreU(hn::IfThenZeroElse(hn::Eq(x, hn::Zero(d)), hn::Mul(x, hn::LoadU(d, b + at))), d, a + at);
    }
}

/// p, ds and dq of a tile of queries against a tile of keys.
HWY_INLINE void BackwardScores(const BackwardCall& c, const Layout& at, const TileAt& t, std::size_t step,
                               Sink<float> dq, const BackwardScratch& w) {
  const std::size_t lanes = hn::Lanes(Floats()), padded = at.padded;
  for (std::size_t i = 0; i < t.rows; i += step) {
    const std::size_t n = std::min(step, t.rows - i), cols = t.visible(i + n);
    const std::size_t vecs = (cols + lanes - 1) / lanes;
    float *p = w.p + i * kTile, *ds = w.ds + i * kTile;
    Scores(c.a, t, i, n, w.q, padded, w.keys_t, c.bias, c.table, p, w.slope);
    Product(n, vecs * lanes, at.head, Left<false>{w.d_o + i * padded, padded}, w.values_t, kTile,
            Result{ds, kTile});
    if (c.a.dropout) {
      DropFactors(c.a, t, i, n, vecs * lanes, w.factors);
      MultiplyAll(ds, w.factors, n, vecs);
    }
    Mask(p, t, i, n, vecs, -kInf), Mask(ds, t, i, n, vecs, 0);
    std::size_t r = 0;
    for (; r + 3 <= n; r += 3)
      ScoreGradRows<3>(p + r * kTile, ds + r * kTile, vecs, w.lse + i + r, w.delta + i + r);
    for (; r < n; ++r) ScoreGradRows<1>(p + r * kTile, ds + r * kTile, vecs, w.lse + i + r, w.delta + i + r);
    if (c.a.dropout) MultiplyAll(p, w.factors, n, vecs);
    if (c.bias && c.d_table)
      c.bias->grad({ds, std::int64_t(n), std::int64_t(cols), std::int64_t(kTile)}, int(t.head),
                   std::int64_t(t.query + i), std::int64_t(t.key), c.d_table);
    if (c.a.softcap > 0) MultiplyRows(ds, w.slope, n, vecs);
    const std::size_t from = t.from(i);
    if (dq)
      Product(n, at.head, std::max(cols, from) - from, Left<false>{ds + from, kTile}, w.keys + from * padded,
              padded, Into(dq, i, t.first()));
  }
}

/// The tile's part of dk and dv. Rows of p above the diagonal block and beyond the window are 0: each block
/// of keys starts and ends there.
HWY_INLINE void BackwardKeys(const BackwardCall& c, const Layout& at, const TileAt& t, std::size_t step,
                             bool first, Sink<float> dk, Sink<float> dv, const BackwardScratch& w) {
  float scale[kBlockRows];
  std::fill(scale, scale + kBlockRows, float(c.a.scale));
  for (std::size_t j = 0; j < t.cols; j += step) {
    const std::size_t n = std::min(step, t.cols - j), i = t.diagonal() ? j : 0;
    const std::size_t depth = std::max(t.upto(j + n - 1), i) - i;
    const std::size_t corner = i * kTile + j, from = i * at.padded;
    if (dv)
      Product(n, at.head, depth, Left<true>{w.p + corner, kTile}, w.d_o + from, at.padded,
              Into(dv, j, first));
    if (dk)
      Product(n, at.head, depth, Left<true>{w.ds + corner, kTile}, w.q + from, at.padded,
              Into(dk, j, first, scale));
  }
}

HWY_INLINE Sink<float> TileOf(Sink<float> s, std::size_t first, std::size_t rows, std::size_t col,
                              std::size_t cols) {
  return s ? Sink<float>{tile_of(s.v, first, rows, col, cols), s.overwrite} : s;
}

/// All queries of a group of heads against one tile of keys, at position `key` of the sequence.
void BackwardColumn(const BackwardCall& c, const Layout& at, std::size_t sequence, std::size_t kv,
                    std::size_t key, const BackwardScratch& w) {
  const std::size_t cols = std::min(kTile, at.block - key), col = kv * at.head;
  const std::size_t group = Size(c.a.n_head / c.a.n_kv_head), window = Size(c.a.window);
  const View<const float> k = tile_of(c.k, sequence + key, cols, col, at.head);
  const View<const float> v = tile_of(c.v, sequence + key, cols, col, at.head);
  PackTransposed(k, float(c.a.scale), w.keys_t, kTile, round_up(cols, 16));
  PackTransposed(v, 1.0f, w.values_t, kTile, round_up(cols, 16));
  const bool finite = PackRows(k, float(c.a.scale), w.keys, at.padded);
  const Sink<float> dk = TileOf(c.dk, sequence + key, cols, col, at.head);
  const Sink<float> dv = TileOf(c.dv, sequence + key, cols, col, at.head);
  bool first = true;
  for (std::size_t h = kv * group; h < (kv + 1) * group; ++h)
    for (std::size_t i = key; i < at.block && TileAt::first_tile(i, window) <= key;
         i += kTile, first = false) {
      const TileAt t{sequence / at.block, h, i, key, std::min(kTile, at.block - i), cols, window};
      const bool all_finite = PackQueries(c, at, sequence + i, t.rows, h, w) && finite;
      const std::size_t step = t.masked() && !all_finite ? 1 : kBlockRows;
      BackwardScores(c, at, t, step, TileOf(c.dq, sequence + i, t.rows, h * at.head, at.head), w);
      BackwardKeys(c, at, t, step, first, dk, dv, w);
    }
}

void AttentionBackward(const BackwardCall& c, float* scratch) {
  const Layout at(c.a);
  const BackwardScratch w(at, scratch);
  for (std::size_t sequence = 0; sequence < Size(c.a.n_seq) * at.block; sequence += at.block)
    for (std::size_t kv = 0; kv < Size(c.a.n_kv_head); ++kv)
      for (std::size_t key = 0; key < at.block; key += kTile) BackwardColumn(c, at, sequence, kv, key, w);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace plumb
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plumb {
namespace {
using namespace tiles;
HWY_EXPORT(AttentionForward);
HWY_EXPORT(AttentionBackward);
}  // namespace

template <class R>
std::size_t attention_scratch(const AttentionShape& a) {
  const std::size_t plain = 4 * std::size_t(a.block);
  if constexpr (sizeof(R) == sizeof(double)) return plain;
  const Layout at(a);
  return std::max({plain, at.forward() + 16, at.backward() + 16});
}

template <class R>
void attention_forward(const AttentionShape& a, View<const R> q, View<const R> k, View<const R> v,
                       const ScoreBias<R>* bias, View<const R> table, View<R> o, View<R> lse, View<R> entropy,
                       View<R> max_logit, R* scratch) {
  if constexpr (sizeof(R) == sizeof(double))
    plain::attention_forward(a, q, k, v, bias, table, o, lse, entropy, max_logit, scratch);
  else
    HWY_DYNAMIC_DISPATCH(AttentionForward)
  (ForwardCall{a, q, k, v, bias, table, o, lse, entropy, max_logit}, scratch);
}

template <class R>
void attention_backward(const AttentionShape& a, View<const R> q, View<const R> k, View<const R> v,
                        const ScoreBias<R>* bias, View<const R> table, View<const R> o, View<const R> lse,
                        View<const R> d_o, Sink<R> dq, Sink<R> dk, Sink<R> dv, View<R> d_table, R* scratch) {
  if constexpr (sizeof(R) == sizeof(double))
    plain::attention_backward(a, q, k, v, bias, table, o, lse, d_o, dq, dk, dv, d_table, scratch);
  else
    HWY_DYNAMIC_DISPATCH(AttentionBackward)
  (BackwardCall{a, q, k, v, bias, table, o, lse, d_o, dq, dk, dv, d_table}, scratch);
}

#define PLUMB_INSTANTIATE(R)                                                                              \
  template std::size_t attention_scratch<R>(const AttentionShape&);                                       \
  template void attention_forward(const AttentionShape&, View<const R>, View<const R>, View<const R>,     \
                                  const ScoreBias<R>*, View<const R>, View<R>, View<R>, View<R>, View<R>, \
                                  R*);                                                                    \
  template void attention_backward(const AttentionShape&, View<const R>, View<const R>, View<const R>,    \
                                   const ScoreBias<R>*, View<const R>, View<const R>, View<const R>,      \
                                   View<const R>, Sink<R>, Sink<R>, Sink<R>, View<R>, R*);
PLUMB_INSTANTIATE(float)
PLUMB_INSTANTIATE(double)
#undef PLUMB_INSTANTIATE

}  // namespace plumb
#endif  // HWY_ONCE
