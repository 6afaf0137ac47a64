// Tiles of kRows x kColumns dot products, vectors along k: both operands are read as they are stored.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "plumb/kernel/row_product_simd.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include <algorithm>
#include <array>

#include "plumb/kernel/row_product.h"
#include "plumb/kernel/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plumb {
namespace HWY_NAMESPACE {
namespace {

constexpr std::int64_t kColumns = 3;  // 4 x 3 sums and 7 operands fill 16 registers but for the fourth row,
constexpr std::int64_t kRows = 4;     // which is read from memory
constexpr std::int64_t kBlockBytes = std::int64_t{16} << 10;  // rows of B that stay in the first cache

template <std::int64_t rows, std::int64_t columns>
HWY_INLINE void Tile(const ProductShape& s, const float* a, const float* b, const float* bias, float* c) {
  const Floats d;
  FloatVec sum[rows][columns];
#pragma GCC unroll 8
  for (std::int64_t i = 0; i < rows; ++i)
#pragma GCC unroll 8
    for (std::int64_t j = 0; j < columns; ++j) sum[i][j] = hn::Zero(d);
  ForRow(Size(s.k), [&](std::size_t p, auto part) HWY_ATTR {
    FloatVec right[columns];
#pragma GCC unroll 8
    for (std::int64_t j = 0; j < columns; ++j) right[j] = part.load(b + j * s.ldb + p);
#pragma GCC unroll 8
    for (std::int64_t i = 0; i < rows; ++i) {
      const FloatVec left = part.load(a + i * s.lda + p);
#pragma GCC unroll 8
      for (std::int64_t j = 0; j < columns; ++j) sum[i][j] = hn::MulAdd(left, right[j], sum[i][j]);
    }
  });
#pragma GCC unroll 8
  for (std::int64_t i = 0; i < rows; ++i)
#pragma GCC unroll 8
    for (std::int64_t j = 0; j < columns; ++j) {
      const float y = SumLanes(d, sum[i][j]);
      c[i * s.ldc + j] = bias ? y + bias[j] : y;
    }
}

template <std::int64_t rows>
void Rows(const ProductShape& s, const float* a, const float* b, const float* bias, float* c, std::int64_t j0,
          std::int64_t end) {
  std::int64_t j = j0;
  for (; j + kColumns <= end; j += kColumns)
    Tile<rows, kColumns>(s, a, b + j * s.ldb, bias ? bias + j : nullptr, c + j);
  for (; j < end; ++j) Tile<rows, 1>(s, a, b + j * s.ldb, bias ? bias + j : nullptr, c + j);
}

void RowProduct(const ProductShape& s, const float* a, const float* b, const float* bias, float* c) {
  const std::int64_t fit = kBlockBytes / std::int64_t{sizeof(float)} / std::max<std::int64_t>(s.k, 1);
  const std::int64_t block = std::max<std::int64_t>(fit / kColumns, 1) * kColumns;
  for (std::int64_t j = 0; j < s.n; j += block) {
    const std::int64_t end = std::min(s.n, j + block);
    std::int64_t i = 0;
    for (; i + kRows <= s.m; i += kRows) Rows<kRows>(s, a + i * s.lda, b, bias, c + i * s.ldc, j, end);
    for (; i < s.m; ++i) Rows<1>(s, a + i * s.lda, b, bias, c + i * s.ldc, j, end);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace plumb
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plumb {
namespace {
HWY_EXPORT(RowProduct);
}  // namespace

void row_product(const ProductShape& s, const float* a, const float* b, const float* bias, float* c) {
  HWY_DYNAMIC_DISPATCH(RowProduct)(s, a, b, bias, c);
}

}  // namespace plumb
#endif  // HWY_ONCE
