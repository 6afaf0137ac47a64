// Observers of named points.
#pragma once
#include <string_view>

#include "plumb/plan/op.h"

namespace plumb {

/// Sees values at named points (DESIGN, "Pinned names"), forward, and their gradients (of the mean loss, before
/// clipping), backward. Runs per shard on the shard's thread; shards at the same time, so partial sums are kept by
/// `shard` and joined in `merge`. With no hook that rewrites, a run has the same bits with and without hooks.
template <class R>
struct Hook {
  virtual ~Hook() = default;
  /// Asked while planning, once for each point, statistic and interior point.
  virtual bool wants(std::string_view point, Dir) const = 0;
  /// `v` may be rewritten when `rewrites()`.
  virtual void at(std::string_view point, Dir, View<R> v, int shard) = 0;
  virtual bool rewrites() const { return false; }
  /// Before and after the shards of a step; partial results are joined here in shard order.
  virtual void begin(int n_shard) { (void)n_shard; }
  virtual void merge(int n_shard) { (void)n_shard; }
};

}  // namespace plumb
