// Build-time shapes with named dims.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace plumb {

/// One dim. Names: 'B' sequences, 'T' positions, 'C' d_model, 'H' heads, 'D' d_head, 'F' d_ff, 'V' vocabulary,
/// 'E' experts, 'N' lanes, '1' a single element. `grows`: it widens with the model (muP needs to know).
struct Dim {
  char name = '1';
  std::int64_t n = 1;
  bool grows = false;
};

/// The last dim is the columns of the View, the product of the others its rows. A leading 'B' dim means "per sequence of
/// the shard": its size is fixed only when the plan cuts the batch.
struct Shape {
  std::vector<Dim> dims;
  Shape() = default;
  Shape(std::initializer_list<Dim> d) : dims(d) {}

  bool per_sequence() const { return !dims.empty() && dims.front().name == 'B'; }
  std::int64_t cols() const { return dims.empty() ? 1 : dims.back().n; }
  /// Rows of the whole View; of one sequence when `per_sequence()`.
  std::int64_t rows() const {
    std::int64_t r = 1;
    for (std::size_t i = per_sequence() ? 1 : 0; i + 1 < dims.size(); ++i) r *= dims[i].n;
    return r;
  }
  std::int64_t size() const { return rows() * cols(); }
  std::string text() const;  // "(B, T 64, C 128)"
};

}  // namespace plumb
