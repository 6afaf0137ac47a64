// Sums over shards by one fixed pairwise tree, whoever computed the shards and in whatever order.
#pragma once
#include <span>
#include <vector>

#include "plumb/base/threads.h"
#include "plumb/tensor/arena.h"

namespace plumb {

/// Gradients of `n` shards, `elements` long each, summed as tree(n) = tree(p) + tree(n - p), p the largest power of two
/// below n. Shards come in waves of at most `wave`, each with a slot of its own; between waves partial sums wait in
/// log2(n / wave) levels. Memory: (min(n, wave) + levels + 1) * elements.
template <class R>
class TreeSum {
 public:
  static constexpr std::int64_t wave = 8;
  TreeSum() = default;
  TreeSum(std::int64_t n, std::int64_t elements);
  /// Where shard i of the current wave writes; zero where no op ever writes.
  R* slot(std::int64_t i) const { return slots_.as<R>() + i % wave * elements_; }
  /// Call after each wave; `done` shards are complete.
  void end_wave(std::int64_t done, ThreadPool&);
  /// The total, after the last wave.
  R* total() const { return total_.as<R>(); }
  std::size_t bytes() const { return slots_.bytes() + levels_.bytes() + total_.bytes(); }

 private:
  std::int64_t n_ = 0, elements_ = 0;
  Arena slots_, levels_, total_;
};

}  // namespace plumb
