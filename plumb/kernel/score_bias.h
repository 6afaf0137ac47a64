// What a position code may add to attention scores, tile by tile: no T x T tensor exists and attention/ never includes
// position/.
#pragma once
#include "plumb/tensor/view.h"

namespace plumb {

/// Adds a bias to a tile of scores s[i][j], query q0 + i, key k0 + j (positions inside the sequence), of one head.
/// `table`: the parameter the bias reads, (rows, n_head) for T5, or data == nullptr.
template <class R>
struct ScoreBias {
  virtual ~ScoreBias() = default;
  virtual void add(View<R> s, int head, std::int64_t q0, std::int64_t k0, View<const R> table) const = 0;
  /// Adds (never overwrites) d loss / d table for the tile's d loss / d s; `ds` is 0 where masked.
  virtual void grad(View<const R> ds, int head, std::int64_t q0, std::int64_t k0, View<R> dtable) const = 0;
};

}  // namespace plumb
