// Attention while decoding: one query a call.
#pragma once
#include <cmath>
#include <limits>

#include "plumb/attention/attention.h"
#include "plumb/base/error.h"

namespace plumb {

/// One query a call, against the keys and values of the calls before, which lie in state: (context, KV·D)
/// each, oldest first. At `context` positions the oldest makes room. Keys are kept as they came and turned
/// anew each time: a rotation whose angles depend on the length so far (dynamic NTK) would be wrong on keys
/// that were turned earlier. Positions count from the oldest key: of a rotation only differences matter. Sums
/// in double, as in the plain twin.
template <class R>
class CachedAttentionOp final : public Op<R> {
 public:
  CachedAttentionOp(const ScoreRule& s, const AttentionContext<R>& c)
      : s_(s), bias_(c.bias), rotation_(c.rotation), window_(c.mask.window), has_table_(c.table.id >= 0) {}
  OpInfo info() const override { return {.kind = "attention"}; }

  std::size_t prepare(const Run<R>& r, ProductCache<R>&) override {
    const auto rows = static_cast<std::size_t>(r.state(0).rows);
    std::size_t bytes = rows * (sizeof(R) + sizeof(double));
    if (rotation_)
      bytes += (rows * static_cast<std::size_t>(r.in(1).cols) + static_cast<std::size_t>(r.in(0).cols)) *
               sizeof(R);
    return bytes;
  }

  void forward(Run<R>& r) const override {
    const View<R> kept = r.state(0), values = r.state(1);
    const std::int64_t n = std::min(r.position() + 1, kept.rows), d = r.in(0).cols / s_.n_head;
    append(kept, r.in(1), r.position());
    append(values, r.in(2), r.position());
    auto* p = static_cast<double*>(r.scratch());
    R* s = reinterpret_cast<R*>(p + kept.rows);
    View<const R> q = r.in(0), keys = kept;
    if (rotation_) {
      R* at = s + kept.rows;
      const View<R> turned{at, n, kept.cols, kept.cols}, query{at + kept.rows * kept.cols, 1, q.cols, q.cols};
      rotation_->turn(kept.slice(0, n), {turned, true}, 0, n, false);
      rotation_->turn(q, {query, true}, n - 1, n, false);
      keys = turned, q = query;
    }
    const std::int64_t from = window_ > 0 ? std::max<std::int64_t>(0, n - window_) : 0;
    for (std::int64_t h = 0; h < s_.n_head; ++h) {
      const std::int64_t kv = h / (s_.n_head / s_.n_kv_head) * d;
      for (std::int64_t j = from; j < n; ++j)
        s[j] = static_cast<R>(score(q.row(0) + h * d, keys.row(j) + kv, d));
      if (bias_)
        bias_->add({s + from, 1, n - from, n - from}, static_cast<int>(h), n - 1, from,
                   has_table_ ? r.in(3) : View<const R>{});
      double top = -std::numeric_limits<double>::infinity(), z = 0;
      for (std::int64_t j = from; j < n; ++j) top = std::max(top, static_cast<double>(s[j]));
      for (std::int64_t j = from; j < n; ++j) z += p[j] = std::exp(static_cast<double>(s[j]) - top);
      for (std::int64_t k = 0; k < d; ++k) {
        double sum = 0;
        for (std::int64_t j = from; j < n; ++j)
          sum += p[j] / z * static_cast<double>((values.row(j) + kv)[k]);
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
  double score(const R* q, const R* k, std::int64_t d) const {
    double dot = 0;
    for (std::int64_t i = 0; i < d; ++i) dot += static_cast<double>(q[i]) * static_cast<double>(k[i]);
    return s_.softcap > 0 ? s_.softcap * std::tanh(s_.scale * dot / s_.softcap) : s_.scale * dot;
  }
  ScoreRule s_;
  std::shared_ptr<const ScoreBias<R>> bias_;
  std::shared_ptr<const Rotation<R>> rotation_;
  std::int64_t window_;
  bool has_table_;
};

}  // namespace plumb
