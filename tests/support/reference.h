// Reference vectors: small inputs with their outputs and gradients, computed in double by PyTorch 1.13.1 (and
// recomputed by other formulas in numpy, to 2e-15). They lie in tests/data/reference.json.
//
// A gradient is that of sum(output * dy), `dy` among the inputs, unless an entry says otherwise in its
// "desc".
#pragma once
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "plumb/tensor/view.h"

namespace plumb::test {

/// Row-major. Integers (ids, targets) are stored as doubles.
struct Tensor {
  std::string name;  // "layernorm: gradient of gamma", for messages
  std::vector<std::int64_t> shape;
  std::vector<double> data;

  double scalar() const;  // of a tensor with one element
  std::int64_t dim(std::size_t i) const;
  std::vector<std::int32_t> ids() const;
};

struct Entry {
  std::string name;
  std::map<std::string, double> params;  // the numbers among them
  std::map<std::string, Tensor> inputs, outputs, grads;
  double rtol = 0, atol = 0;  // of double code

  const Tensor& in(const std::string& tensor) const;
  const Tensor& out(const std::string& tensor) const;
  const Tensor& grad(const std::string& tensor) const;
  double param(const std::string& param) const;
};

/// The entry of that name. A wrong name (here or in the members above) is an exception that lists what there
/// is.
const Entry& reference(const std::string& name);

/// |got - want| <= atol + rtol * |want|; a NaN passes only against a NaN.
struct Tolerance {
  double rtol = 0, atol = 0;
};
enum class What : std::uint8_t { value, gradient };
/// For code in R: the entry's own tolerance in double; in float 2e-5 and 2e-6 for values, 2e-4 and 2e-5 for
/// gradients and for whole decoders, 1e-3 for the entries that float cannot represent.
template <class R>
Tolerance tolerance(const Entry& entry, What what);

/// Names entry, tensor, index, both numbers and the limit of the worst element.
testing::AssertionResult close(std::span<const double> got, const Tensor& want, Tolerance tolerance);

/// A matrix of its own memory in R: every dim but the last is rows.
template <class R>
struct Matrix {
  std::int64_t rows = 0, cols = 0;
  std::vector<R> data;

  Matrix() = default;
  Matrix(std::int64_t n_row, std::int64_t n_col, R value = R(0))
      : rows(n_row), cols(n_col), data(static_cast<std::size_t>(n_row * n_col), value) {}
  explicit Matrix(const Tensor& t) : rows(1), cols(t.shape.empty() ? 1 : t.shape.back()) {
    for (std::size_t i = 0; i + 1 < t.shape.size(); ++i) rows *= t.shape[i];
    for (double x : t.data) data.push_back(static_cast<R>(x));
  }

  View<R> view() { return {data.data(), rows, cols, cols}; }
  View<const R> view() const { return {data.data(), rows, cols, cols}; }
  Sink<R> sink(bool overwrite = true) { return {view(), overwrite}; }
  std::vector<double> doubles() const { return {data.begin(), data.end()}; }
};

/// (N, C, H, W) as N sequences of H·W positions of C channels; what has fewer dims as it is.
template <class R>
Matrix<R> rows_of(const Tensor& t) {
  if (t.shape.size() != 4) return Matrix<R>(t);
  const std::int64_t n = t.dim(0), c = t.dim(1), s = t.dim(2) * t.dim(3);
  Matrix<R> m(n * s, c);
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < c; ++j)
      for (std::int64_t k = 0; k < s; ++k)
        m.view().row(i * s + k)[j] = static_cast<R>(t.data[static_cast<std::size_t>((i * c + j) * s + k)]);
  return m;
}
/// The same, of a reference result.
inline Tensor row_tensor(const Tensor& t) {
  const Matrix<double> m = rows_of<double>(t);
  return {t.name, {m.rows, m.cols}, m.data};
}

/// (B, H, T, D), as the entries have it, to (B·T, H·D), as the kernel takes it.
template <class R>
Matrix<R> heads_last(const Tensor& t) {
  const std::int64_t n_seq = t.dim(0), n_head = t.dim(1), block = t.dim(2), d = t.dim(3);
  Matrix<R> m(n_seq * block, n_head * d);
  for (std::int64_t i = 0; i < n_seq * n_head * block * d; ++i) {
    const std::int64_t c = i % d, row = i / d % block, h = i / d / block % n_head, b = i / d / block / n_head;
    m.view().row(b * block + row)[h * d + c] = static_cast<R>(t.data[static_cast<std::size_t>(i)]);
  }
  return m;
}

/// And back.
template <class R>
Matrix<R> heads_first(const Matrix<R>& m, const Tensor& like) {
  const std::int64_t n_seq = like.dim(0), n_head = like.dim(1), block = like.dim(2), d = like.dim(3);
  Matrix<R> t(n_seq * n_head * block, d);
  for (std::int64_t i = 0; i < n_seq * n_head * block * d; ++i) {
    const std::int64_t c = i % d, row = i / d % block, h = i / d / block % n_head, b = i / d / block / n_head;
    t.data[static_cast<std::size_t>(i)] = m.view().row(b * block + row)[h * d + c];
  }
  return t;
}

/// EXPECT_TRUE(matches(y, entry, entry.out("y"), What::value))
template <class R>
testing::AssertionResult matches(const Matrix<R>& got, const Entry& entry, const Tensor& want, What what) {
  return close(got.doubles(), want, tolerance<R>(entry, what));
}
/// A single number, against a tensor of one element.
template <class R>
testing::AssertionResult matches(double got, const Entry& entry, const Tensor& want, What what) {
  return close({&got, 1}, want, tolerance<R>(entry, what));
}

}  // namespace plumb::test
