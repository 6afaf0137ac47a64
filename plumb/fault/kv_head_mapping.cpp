// Heads of queries meet the wrong heads of keys and values: head h those of h mod n_kv_head, not of h /
// (n_head / n_kv_head). As the right attention with its heads in other places: the queries are put where
// those keys are read, and what comes of them is put back.
#include <algorithm>

#include "plumb/fault/fault.h"

namespace plumb {
namespace {

// y's head `to[h]` is x's head h; dx goes the other way.
template <class R>
class PlaceHeadsOp final : public Op<R> {
 public:
  explicit PlaceHeadsOp(std::vector<std::int64_t> to) : to_(std::move(to)) {}
  OpInfo info() const override { return {.kind = "place_heads"}; }
  void forward(Run<R>& r) const override {
    each(r.in(0), [&](std::int64_t row, std::int64_t from, std::int64_t to, std::int64_t d) {
      std::copy_n(r.in(0).row(row) + from, d, r.out().row(row) + to);
    });
  }
  void backward(Run<R>& r) const override {
    const Sink<R> dx = r.din(0);
    if (!dx) return;
    each(r.dout(), [&](std::int64_t row, std::int64_t from, std::int64_t to, std::int64_t d) {
      for (std::int64_t j = 0; j < d; ++j) {
        R& out = dx.v.row(row)[from + j];
        out = r.dout().row(row)[to + j] + (dx.overwrite ? R(0) : out);
      }
    });
  }

 private:
  template <class F>
  void each(View<const R> x, const F& f) const {
    const std::int64_t d = x.cols / static_cast<std::int64_t>(to_.size());
    for (std::int64_t i = 0; i < x.rows; ++i)
      for (std::size_t h = 0; h < to_.size(); ++h) f(i, static_cast<std::int64_t>(h) * d, to_[h] * d, d);
  }
  std::vector<std::int64_t> to_;
};

template <class R>
class KvHeadMapping final : public GraphFault<R> {
 public:
  KvHeadMapping(const DecoderSpec& s, double) {
    const std::int64_t group = s.n_head / s.kv_heads();
    back_.resize(static_cast<std::size_t>(s.n_head));
    for (std::int64_t h = 0; h < s.n_head; ++h) {
      place_.push_back(h % s.kv_heads() * group + h / s.kv_heads());
      back_[static_cast<std::size_t>(place_.back())] = h;
    }
  }
  Value at(Builder<R>& b, std::string_view point, Value v) override {
    const bool query = point.ends_with(".attn.q");
    if (!query && !point.ends_with(".attn.ctx")) return v;
    const Value y = b.node1(std::make_unique<PlaceHeadsOp<R>>(query ? place_ : back_),
                            {.name = std::string(point) + ".fault",
                             .in = {v},
                             .out = {b.shape(v)},
                             .backward_reads_in = false,
                             .backward_reads_out = false});
    b.expected_var(y, b.expected_var(v));
    return y;
  }

 private:
  std::vector<std::int64_t> place_, back_;  // of each head of queries
};

std::string kv_head_mapping_refuses(const Config& c) {
  const std::int64_t kv = c.model.n_kv_head.value_or(c.model.n_head);
  if (c.model.position == "alibi" || c.model.position == "t5" || c.attention.qk_norm == "rms_all")
    return "its heads would get each other's position biases and gains too; take another position code or "
           "qk_norm";
  return kv == c.model.n_head || kv == 1 ? "every head has its own keys, or all have the same; set "
                                           "model.n_kv_head between 1 and model.n_head"
                                         : "";
}

}  // namespace

namespace entries::fault {
extern constexpr FaultEntry kv_head_mapping = graph_fault<KvHeadMapping>({
    .name = "kv_head_mapping",
    .what = "heads of queries meet the keys of other groups. A model that starts so learns as well; weights "
            "that were trained "
            "without it (or with it) are wrong with it (or without it)",
    .refuses = kv_head_mapping_refuses,
});
}  // namespace entries::fault

}  // namespace plumb
