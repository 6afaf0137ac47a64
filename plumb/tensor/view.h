// Views: what a kernel sees. Two dimensions and a row stride carry every activation, weight and column slice we have;
// the named dims of a value live in its build-time Shape (shape.h) and cost nothing while running.
#pragma once
#include <cstdint>
#include <type_traits>

namespace plumb {

/// A matrix of `rows` x `cols` elements; row i starts at `data + i * stride`; columns are adjacent. `data == nullptr`
/// means "not asked for" where a docstring allows it.
template <class R>
struct View {
  R* data = nullptr;
  std::int64_t rows = 0, cols = 0, stride = 0;

  R* row(std::int64_t i) const { return data + i * stride; }
  bool contiguous() const { return stride == cols || rows <= 1; }
  std::int64_t size() const { return rows * cols; }
  explicit operator bool() const { return data != nullptr; }
  View<R> columns(std::int64_t first, std::int64_t n) const { return {data + first, rows, n, stride}; }
  View<R> slice(std::int64_t first, std::int64_t n) const { return {data + first * stride, n, cols, stride}; }
  operator View<const R>() const
    requires(!std::is_const_v<R>)
  {
    return {data, rows, cols, stride};
  }
};

/// Where a gradient goes. The first consumer of a value (in backward order) overwrites, later ones add; a kernel that
/// fills a sink must do as `overwrite` says. `v.data == nullptr`: nobody wants this gradient.
template <class R>
struct Sink {
  View<R> v;
  bool overwrite = true;
  explicit operator bool() const { return v.data != nullptr; }
};

}  // namespace plumb
