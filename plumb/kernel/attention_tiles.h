// How tiled attention cuts its work, the same for every instruction set. Included by attention_simd.cpp only.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "plumb/kernel/attention.h"

namespace plumb::tiles {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr std::size_t kTile = 64;         // queries and keys of a tile
constexpr std::size_t kMaxBlockRows = 8;  // at least kBlockRows

constexpr std::size_t round_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

/// Sizes of one call, and the scratch of forward and backward laid out. All in floats, all multiples of 16.
struct Layout {
  std::size_t block, head, padded, tiles;  // T, D, D in whole vectors, tiles of a sequence

  explicit Layout(const AttentionShape& a)
      : block(std::size_t(a.block)),
        head(std::size_t(a.d_head)),
        padded(round_up(head, 16)),
        tiles((block + kTile - 1) / kTile) {}

  std::size_t keys() const { return head * kTile; }      // a tile of keys or values, transposed
  std::size_t values() const { return kTile * padded; }  // a tile of rows

  std::size_t forward() const { return tiles * (keys() + values()) + 2 * kMaxBlockRows * kTile + 3 * kTile; }
  std::size_t backward() const {
    return 2 * keys() + 3 * values() + 2 * (kTile + kMaxBlockRows) * kTile + 2 * kTile;
  }
};

/// One tile of queries against one tile of keys.
struct TileAt {
  std::size_t sequence, head, query, key;  // of the call; head; first positions inside the sequence
  std::size_t rows, cols;                  // queries, keys
  std::size_t window;                      // 0: none

  bool diagonal() const { return query == key; }
  /// The first tile of keys that any of these queries sees.
  bool first() const { return key == first_tile(query, window); }
  static std::size_t first_tile(std::size_t query, std::size_t window) {
    return window > 0 && query >= window ? (query - window + 1) / kTile * kTile : 0;
  }
  /// Do some of the queries see only some of the keys?
  bool masked() const { return diagonal() || from(rows - 1) > 0; }
  /// Row i sees columns from(i) … visible(i + 1) - 1, if any.
  std::size_t from(std::size_t i) const {
    const std::size_t at = query - key + i;  // of the query, counted from the first key
    return window > 0 && at >= window ? std::min(at - window + 1, cols) : 0;
  }
  std::size_t visible(std::size_t last) const { return diagonal() ? std::min(last, cols) : cols; }
  /// Column j is seen by rows upto(j) - 1 and, on the diagonal, j … of them.
  std::size_t upto(std::size_t j) const {
    return window == 0 ? rows : std::min(rows, std::max(key + j + window, query) - query);
  }
};

inline float* align(float* p) {
  return reinterpret_cast<float*>((reinterpret_cast<std::uintptr_t>(p) + 63) / 64 * 64);
}

/// Everything one call of attention_forward was given.
struct ForwardCall {
  AttentionShape a;
  View<const float> q, k, v;
  const ScoreBias<float>* bias;
  View<const float> table;
  View<float> o, lse, entropy, max_logit;
};

struct BackwardCall {
  AttentionShape a;
  View<const float> q, k, v;
  const ScoreBias<float>* bias;
  View<const float> table, o, lse, d_o;
  Sink<float> dq, dk, dv;
  View<float> d_table;
};

/// Rows `first` … of a sequence's tile, columns of one head.
template <class R>
View<R> tile_of(View<R> x, std::size_t first, std::size_t rows, std::size_t col, std::size_t cols) {
  return x.slice(std::int64_t(first), std::int64_t(rows)).columns(std::int64_t(col), std::int64_t(cols));
}

}  // namespace plumb::tiles
