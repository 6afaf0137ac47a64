// T5's relative position bias: s_ij = q_i·k_j + b[bucket(i - j)][head]. Raffel et al. 2020, arXiv 1910.10683,
// section 2.1.
//
// Shapes: b (32, H), one table for all layers. Gradients: db[bucket][head] sums ds over the tile's pairs of
// that bucket, in double, and adds to what the tiles before left.
#include <algorithm>
#include <array>

#include "plumb/kernel/t5_bucket.h"
#include "plumb/position/position.h"

namespace plumb {
namespace {

constexpr std::int64_t far = 113;  // from here on every distance is in the last bucket

constexpr auto buckets = [] {
  std::array<std::uint8_t, far + 1> b{};
  for (std::int64_t n = 0; n <= far; ++n)
    b[static_cast<std::size_t>(n)] = static_cast<std::uint8_t>(t5_bucket(n));
  return b;
}();

std::size_t bucket_of(std::int64_t distance) {
  return buckets[static_cast<std::size_t>(std::clamp<std::int64_t>(distance, 0, far))];
}

template <class R>
class T5Bias final : public ScoreBias<R> {
 public:
  void add(View<R> s, int head, std::int64_t q0, std::int64_t k0, View<const R> table) const override {
    std::array<R, t5_buckets> b{};
    for (std::int64_t i = 0; i < t5_buckets; ++i) b[static_cast<std::size_t>(i)] = table.row(i)[head];
    for (std::int64_t i = 0; i < s.rows; ++i)
      for (std::int64_t j = 0; j < s.cols; ++j) s.row(i)[j] += b[bucket_of(q0 + i - k0 - j)];
  }

  void grad(View<const R> ds, int head, std::int64_t q0, std::int64_t k0, View<R> dtable) const override {
    std::array<double, t5_buckets> d{};
    for (std::int64_t i = 0; i < ds.rows; ++i)
      for (std::int64_t j = 0; j < ds.cols; ++j)
        d[bucket_of(q0 + i - k0 - j)] += static_cast<double>(ds.row(i)[j]);
    for (std::int64_t i = 0; i < t5_buckets; ++i) {
      R& to = dtable.row(i)[head];
      to = static_cast<R>(static_cast<double>(to) + d[static_cast<std::size_t>(i)]);
    }
  }
};

template <class R>
class T5 final : public Position<R> {
 public:
  explicit T5(const DecoderSpec& s) : n_head_(s.n_head) {}
  typename Position<R>::Bias bias(Builder<R>& b) const override {
    const Value table = b.param({.name = "pos.bias",
                                 .role = Role::score_bias,
                                 .shape = {Dim{'1', t5_buckets}, Dim{'H', n_head_, true}},
                                 .fan_in = 1,
                                 .fan_out = n_head_});
    return {std::make_shared<T5Bias<R>>(), table};
  }

 private:
  std::int64_t n_head_;
};

}  // namespace

namespace entries::position {
extern constexpr PositionEntry t5 = position_entry<T5>({
    .name = "t5",
    .purpose = "A learned bias for each bucket of distances, shared by all layers: T5's.",
    .formula = "score += b[bucket(query - key)][head], 32 buckets: exact below 16, logarithmic to 128",
    .paper = "Raffel et al. 2020 (T5), arXiv 1910.10683, section 2.1",
    .pitfalls = "T5 has no 1/sqrt(d_head); the config implies attention.scale = 'none'. Distances past 112 "
                "look alike.",
});
}  // namespace entries::position

}  // namespace plumb
