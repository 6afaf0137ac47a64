// Causal attention as three plain ops, whose scores and weights can be looked at: the twin of the tiled one.
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>

#include "plumb/attention/attention.h"

namespace plumb {

// Sizes of one head of one sequence in the views of a composed op.
struct HeadCut {
  std::int64_t b, h, t, d, n_head, n_kv_head;
  template <class R>
  R* row(View<R> x, std::int64_t i) const {  // of q, ctx
    return x.row(b * t + i) + h * d;
  }
  template <class R>
  R* kv_row(View<R> x, std::int64_t i) const {  // of k, v
    return x.row(b * t + i) + h / (n_head / n_kv_head) * d;
  }
  template <class R>
  View<R> square(View<R> s) const {  // of scores, weights
    return s.slice((b * n_head + h) * t, t);
  }
};

// f(HeadCut) for each head of each sequence; d from the columns of k or v.
template <class R, class F>
void each_head(const Run<R>& r, View<const R> kv, const ScoreRule& s, const F& f) {
  const std::int64_t t = kv.rows / r.sequences();
  for (std::int64_t b = 0; b < r.sequences(); ++b)
    for (std::int64_t h = 0; h < s.n_head; ++h)
      f(HeadCut{b, h, t, kv.cols / s.n_kv_head, s.n_head, s.n_kv_head});
}

template <class R>
void clear_if_overwriting(const Sink<R>& s) {
  if (s && s.overwrite)
    for (std::int64_t i = 0; i < s.v.rows; ++i) std::fill_n(s.v.row(i), s.v.cols, R(0));
}

// Inputs: q, k and, with a biasing position code, its table. Kept: the cap's slope (B, H, T, T), when there
// is a cap.
template <class R>
class ScoresOp final : public Op<R> {
 public:
  ScoresOp(const ScoreRule& s, const AttentionContext<R>& c)
      : s_(s), bias_(c.bias), has_table_(c.table.id >= 0), mask_(c.mask) {}
  OpInfo info() const override { return {.kind = "attention_scores", .sees_future = !mask_.causal()}; }

  void forward(Run<R>& r) const override {
    each_head(r, r.in(1), s_, [&](const HeadCut& c) {
      const View<R> s = c.square(r.out());
      for (std::int64_t i = 0; i < c.t; ++i)
        for (std::int64_t j = 0; j < c.t; ++j) {
          R dot = 0;
          for (std::int64_t k = 0; k < c.d; ++k) dot += c.row(r.in(0), i)[k] * c.kv_row(r.in(1), j)[k];
          R z = static_cast<R>(s_.scale) * dot;
          if (s_.softcap > 0) {
            const auto cap = static_cast<R>(s_.softcap);
            const R t = std::tanh(z / cap);
            c.square(r.kept()).row(i)[j] = 1 - t * t;
            z = cap * t;
          }
          s.row(i)[j] = z;
        }
      if (bias_) bias_->add(s, static_cast<int>(c.h), 0, 0, has_table_ ? r.in(2) : View<const R>{});
      const R masked = mask_.finite ? static_cast<R>(mask_.value) : -std::numeric_limits<R>::infinity();
      for (std::int64_t i = 0; i < c.t; ++i) {
        std::fill(s.row(i), s.row(i) + mask_.first(i), masked);
        std::fill(s.row(i) + mask_.last(i, c.t), s.row(i) + c.t, masked);
      }
    });
  }

  void backward(Run<R>& r) const override {
    const Sink<R> dq = r.din(0), dk = r.din(1), dtable = has_table_ ? r.din(2) : Sink<R>{};
    clear_if_overwriting(dq);
    clear_if_overwriting(dk);
    clear_if_overwriting(dtable);
    each_head(r, r.in(1), s_, [&](const HeadCut& c) {
      const View<const R> ds = c.square(r.dout());
      for (std::int64_t i = 0; i < c.t; ++i)
        for (std::int64_t j = mask_.first(i); j < mask_.last(i, c.t); ++j) {
          R g = static_cast<R>(s_.scale) * ds.row(i)[j];
          if (s_.softcap > 0) g *= c.square(r.kept()).row(i)[j];
          for (std::int64_t k = 0; k < c.d; ++k) {
            if (dq) c.row(dq.v, i)[k] += g * c.kv_row(r.in(1), j)[k];
            if (dk) c.kv_row(dk.v, j)[k] += g * c.row(r.in(0), i)[k];
          }
        }
      if (dtable) bias_->grad(ds, static_cast<int>(c.h), 0, 0, dtable.v);
    });
  }

 private:
  ScoreRule s_;
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
      const std::int64_t from = mask_.first_seen(i), seen = mask_.last_seen(i, t);
      const R* x = s.row(row);
      R* p = r.out().row(row);
      R top = x[from], z = 0;
      for (std::int64_t j = from + 1; j < seen; ++j) top = x[j] > top || std::isnan(x[j]) ? x[j] : top;
      for (std::int64_t j = from; j < seen; ++j) z += p[j] = std::exp(x[j] - top);
      R expected = 0;
      for (std::int64_t j = from; j < seen; ++j) {
        p[j] /= z;
        if (p[j] != 0) expected += p[j] * (x[j] - top);
      }
      std::fill(p, p + from, R(0));
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
      const std::int64_t t = ds.v.cols, i = row % t, first = mask_.first(i), last = mask_.last(i, t);
      for (std::int64_t j = mask_.first_seen(i); j < mask_.last_seen(i, t); ++j) dot += p[j] * dp[j];
      for (std::int64_t j = 0; j < t; ++j) {
        const R g = j >= first && j < last ? p[j] * (dp[j] - dot) : R(0);  // a masked score is a constant
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
  WeightedSumOp(const ScoreRule& s, const Mask& mask) : s_(s), mask_(mask) {}
  OpInfo info() const override { return {.kind = "attention_context"}; }

  void forward(Run<R>& r) const override {
    each_head(r, r.in(1), s_, [&](const HeadCut& c) {
      const View<const R> p = c.square(r.in(0));
      for (std::int64_t i = 0; i < c.t; ++i) {
        R* o = c.row(r.out(), i);
        std::fill_n(o, c.d, R(0));
        for (std::int64_t j = mask_.first_seen(i); j < mask_.last_seen(i, c.t); ++j)
          for (std::int64_t k = 0; k < c.d; ++k) o[k] += p.row(i)[j] * c.kv_row(r.in(1), j)[k];
      }
    });
  }

  void backward(Run<R>& r) const override {
    const Sink<R> dp = r.din(0), dv = r.din(1);
    clear_if_overwriting(dp);
    clear_if_overwriting(dv);
    each_head(r, r.in(1), s_, [&](const HeadCut& c) {
      const View<const R> p = c.square(r.in(0));
      for (std::int64_t i = 0; i < c.t; ++i)
        for (std::int64_t j = mask_.first_seen(i); j < mask_.last_seen(i, c.t); ++j) {
          R dot = 0;
          for (std::int64_t k = 0; k < c.d; ++k) {
            dot += c.row(r.dout(), i)[k] * c.kv_row(r.in(1), j)[k];
            if (dv) c.kv_row(dv.v, j)[k] += p.row(i)[j] * c.row(r.dout(), i)[k];
          }
          if (dp) c.square(dp.v).row(i)[j] += dot;
        }
    });
  }

 private:
  ScoreRule s_;
  Mask mask_;
};

}  // namespace plumb
