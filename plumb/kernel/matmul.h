// Matrix products. The only place that knows oneDNN; everything above sees shapes, pointers and scratch.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "plumb/base/precision.h"

namespace plumb {

/// C (m,n) = op(A)(m,k) · op(B)(k,n), row-major with row strides in elements. `trans_a`: A is stored (k,m);
/// `trans_b`: B is stored (n,k), as weights are. A stride of 0 means rows without gaps. `accumulate`: C +=
/// instead of C =. `bias` (n) is added to every row. C may alias nothing. `steady_rows`: the bits of a row of
/// C depend on this row of A alone, not on how many rows there are or where it stands (row_product.h); for A
/// (m,k), B (n,k) and C =.
struct ProductShape {
  std::int64_t m = 0, n = 0, k = 0;
  bool trans_a = false, trans_b = false;
  std::int64_t lda = 0, ldb = 0, ldc = 0;
  bool accumulate = false, bias = false, steady_rows = false;
  Format operands =
      Format::fp32;  // what A and B are rounded to first (float products alone); sums stay in float

  bool operator==(const ProductShape&) const = default;
  double flops() const {
    return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  }
  /// With every stride filled in. Throws a sentence for a negative size or a stride shorter than its row.
  ProductShape resolved() const;
  std::string text() const;  // "A (512, 128) x B^T (384, 128) -> C (512, 384)"
};

/// One product of a fixed shape, run by one thread at a time or by many at once: the bits are the same.
///   float   oneDNN's matmul primitive, one OpenMP thread, scratch from the caller; `steady_rows`: a kernel
///   of ours. double  plain loops: an element is the old C when accumulating, + Σ over ascending k, + the
///   bias.
/// 0 · NaN is NaN in both. Without `accumulate` nothing is read from C. k = 0 leaves C = 0 (+ bias). Side
/// effect of float: OpenMP's thread count becomes 1 on the thread that makes a Product and on each that runs
/// one.
template <class R>
class Product {
 public:
  explicit Product(const ProductShape&);  // make all of them on one thread, while planning
  ~Product();
  Product(Product&&) noexcept;
  Product& operator=(Product&&) noexcept;

  const ProductShape& shape() const;
  std::size_t scratch_bytes() const;  // a multiple of 64; 0: `scratch` is not read
  /// Thread-safe given its own 64-byte-aligned `scratch`. Allocates nothing of ours (oneDNN does, inside
  /// its call, and makes the handles of a worker on its first run of this product). `bias` is read only if
  /// the shape has one.
  void run(const R* a, const R* b, const R* bias, R* c, void* scratch) const;
  std::string impl() const;  // which implementation was chosen, for the manifest: "gemm:jit", "rows", "plain"

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Runs body(0) … body(n-1), in any order, on any number of threads, and returns when all are done.
using Executor = std::function<void(std::int64_t n, const std::function<void(std::int64_t)>& body)>;
void run_serially(std::int64_t n, const std::function<void(std::int64_t)>& body);

/// How a product is cut: a grid of row, column and k pieces, chosen by the shape alone, never by a thread
/// count.
struct ProductCut {
  std::int64_t rows = 1, columns = 1, k = 1;  // pieces along each
  std::int64_t pieces() const { return rows * columns * k; }
};
ProductCut cut(const ProductShape&);

/// A big product as pieces that any number of threads may run, with the same bits for each number. Pieces of
/// k go to scratch and are added by a fixed pairwise tree, so a 32 x 32 x 65536 product is shared too.
template <class R>
class CutProduct {
 public:
  explicit CutProduct(const ProductShape&);
  ~CutProduct();
  CutProduct(CutProduct&&) noexcept;
  CutProduct& operator=(CutProduct&&) noexcept;

  const ProductShape& shape() const;
  ProductCut cut() const;
  std::size_t scratch_bytes() const;  // a multiple of 64
  void run(const R* a, const R* b, const R* bias, R* c, void* scratch, const Executor&) const;
  std::string impl() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace plumb
