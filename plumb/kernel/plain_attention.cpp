// Plain twin of causal attention, one query row at a time (the formula: kernel/attention.h). Sums in double,
// scores and gradients stored in R.
//
//   s_j = cap(scale q.k_j) + bias_j, i - W < j <= i;  lse = log sum exp s;  p_j = exp(s_j - lse)
//   o = sum f_j p_j v_j
//   dv_j += f_j p_j do;  ds_j = p_j (f_j do.v_j - do.o);  dz_j = ds_j cap'(z_j)
//   dq = scale sum dz_j k_j;  dk_j += scale dz_j q
//
// cap(z) = c tanh(z / c), cap' = 1 - (cap / c)^2; without a cap both are z and 1. f: dropout's factor, or 1.
// o, lse, entropy and max_logit overwrite. dq, dk, dv: cleared first where their sink overwrites, then added to; d_table adds. Scratch: 4 T
// (of one row the scores, their gradient, the cap's slope, dropout's factors).
#include <cmath>
#include <limits>

#include "plumb/kernel/attention.h"

namespace plumb::plain {
namespace {

template <class R>
double dot(const R* a, const R* b, std::int64_t n) {
  double total = 0;
  for (std::int64_t i = 0; i < n; ++i) total += double(a[i]) * double(b[i]);
  return total;
}

template <class R>
void clear(Sink<R> s) {
  if (!s || !s.overwrite) return;
  for (std::int64_t i = 0; i < s.v.rows; ++i)
    for (std::int64_t j = 0; j < s.v.cols; ++j) s.v.row(i)[j] = 0;
}

/// Calls f(row, first row of the sequence, position, head, first column of q's head, of kv's head).
template <class F>
void for_each_query(const AttentionShape& a, F f) {
  for (std::int64_t n = 0; n < a.n_seq; ++n)
    for (std::int64_t h = 0; h < a.n_head; ++h)
      for (std::int64_t i = 0; i < a.block; ++i)
        f(n * a.block + i, n * a.block, i, h, h * a.d_head, h / (a.n_head / a.n_kv_head) * a.d_head);
}

/// Scores of one query against the keys that it sees into s[j], and the cap's slope beside them when `slope`.
template <class R>
void scores(const AttentionShape& a, const R* q, View<const R> k, std::int64_t first, std::int64_t i,
            std::int64_t h, std::int64_t kv, const ScoreBias<R>* bias, View<const R> table, R* s, R* slope) {
  const std::int64_t from = a.first_key(i), n = i + 1 - from;
  for (std::int64_t j = from; j <= i; ++j) {
    double z = a.scale * dot(q, k.row(first + j) + kv, a.d_head);
    if (a.softcap > 0) {
      const double t = std::tanh(z / a.softcap);
      z = a.softcap * t;
      if (slope) slope[j] = R(1 - t * t);
    }
    s[j] = R(z);
  }
  if (bias) bias->add({s + from, 1, n, n}, int(h), i, from, table);
}

/// Of the keys of query i, what dropout multiplies their weights by; nullptr: there is none.
template <class R>
const R* factors(const AttentionShape& a, std::int64_t sequence, std::int64_t h, std::int64_t i, R* f) {
  if (!a.dropout) return nullptr;
  plain::dropout_factors<R>(a.dropout, sequence, Dropout::element(h * a.block + i, a.block, 0),
                            {f, static_cast<std::size_t>(i + 1)});
  return f;
}

}  // namespace

template <class R>
void attention_forward(const AttentionShape& a, View<const R> q, View<const R> k, View<const R> v,
                       const ScoreBias<R>* bias, View<const R> table, View<R> o, View<R> lse, View<R> entropy,
                       View<R> max_logit, R* s) {
  for_each_query(a, [&](std::int64_t row, std::int64_t first, std::int64_t i, std::int64_t h,
                        std::int64_t col, std::int64_t kv) {
    const std::int64_t from = a.first_key(i);
    scores<R>(a, q.row(row) + col, k, first, i, h, kv, bias, table, s, nullptr);
    double top = -std::numeric_limits<double>::infinity(), z = 0, ps = 0;
    for (std::int64_t j = from; j <= i; ++j)
      if (double(s[j]) > top || std::isnan(s[j])) top = double(s[j]);
    const double shift = top == -std::numeric_limits<double>::infinity() ? 0 : top;
    const R* f = factors(a, first / a.block, h, i, s + a.block);
    for (std::int64_t j = from; j <= i; ++j) {
      const double e = std::exp(double(s[j]) - shift);
      z += e;
      if (e != 0) ps += e * (double(s[j]) - shift);
    }
    for (std::int64_t c = 0; c < a.d_head; ++c) {
      double total = 0;
      for (std::int64_t j = from; j <= i; ++j)
        total +=
            (f ? double(f[j]) : 1) * std::exp(double(s[j]) - shift) / z * double(v.row(first + j)[kv + c]);
      o.row(row)[col + c] = R(total);
    }
    lse.row(row)[h] = R(shift + std::log(z));
    if (entropy) entropy.row(row)[h] = R(std::log(z) - ps / z);
    if (max_logit) max_logit.row(row)[h] = R(top);
  });
}

template <class R>
void attention_backward(const AttentionShape& a, View<const R> q, View<const R> k, View<const R> v,
                        const ScoreBias<R>* bias, View<const R> table, View<const R> o, View<const R> lse,
                        View<const R> d_o, Sink<R> dq, Sink<R> dk, Sink<R> dv, View<R> d_table, R* s) {
  clear(dq), clear(dk), clear(dv);
  R *ds = s + a.block, *slope = ds + a.block;
  for_each_query(a, [&](std::int64_t row, std::int64_t first, std::int64_t i, std::int64_t h,
                        std::int64_t col, std::int64_t kv) {
    const std::int64_t from = a.first_key(i), n = i + 1 - from;
    scores(a, q.row(row) + col, k, first, i, h, kv, bias, table, s, slope);
    const R* g = d_o.row(row) + col;
    const R* f = factors(a, first / a.block, h, i, slope + a.block);
    const double delta = dot(g, o.row(row) + col, a.d_head);
    for (std::int64_t j = from; j <= i; ++j) {
      const double p = std::exp(double(s[j]) - double(lse.row(row)[h]));
      const double kept = f ? double(f[j]) : 1;
      ds[j] = R(p * (kept * dot(g, v.row(first + j) + kv, a.d_head) - delta));
      const double dz = double(ds[j]) * (a.softcap > 0 ? double(slope[j]) : 1);
      for (std::int64_t c = 0; c < a.d_head; ++c) {
        if (dv) dv.v.row(first + j)[kv + c] += R(kept * p * double(g[c]));
        if (dk) dk.v.row(first + j)[kv + c] += R(a.scale * dz * double(q.row(row)[col + c]));
        if (dq) dq.v.row(row)[col + c] += R(a.scale * dz * double(k.row(first + j)[kv + c]));
      }
    }
    if (bias && d_table) bias->grad({ds + from, 1, n, n}, int(h), i, from, d_table);
  });
}

#define PLUMB_INSTANTIATE(R)                                                                              \
  template void attention_forward(const AttentionShape&, View<const R>, View<const R>, View<const R>,     \
                                  const ScoreBias<R>*, View<const R>, View<R>, View<R>, View<R>, View<R>, \
                                  R*);                                                                    \
  template void attention_backward(const AttentionShape&, View<const R>, View<const R>, View<const R>,    \
                                   const ScoreBias<R>*, View<const R>, View<const R>, View<const R>,      \
                                   View<const R>, Sink<R>, Sink<R>, Sink<R>, View<R>, R*);
PLUMB_INSTANTIATE(float)
PLUMB_INSTANTIATE(double)
#undef PLUMB_INSTANTIATE

}  // namespace plumb::plain
