// What a position code may do to queries and keys, head by head: attention/ never includes position/.
#pragma once
#include "plumb/tensor/view.h"

namespace plumb {

/// Turns the vectors of every head by angles that depend on their position.
template <class R>
struct Rotation {
  virtual ~Rotation() = default;
  /// y (=|+=) x turned, or turned back. x, y (rows, heads·d_head): positions first … of a sequence that is
  /// `length` long so far. y may be x when it overwrites.
  virtual void turn(View<const R> x, Sink<R> y, std::int64_t first, std::int64_t length, bool back) const = 0;
};

}  // namespace plumb
