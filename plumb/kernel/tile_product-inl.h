// Small matrix products on tiles in scratch, the inner loops of attention: C (=|+=) A B with C in registers,
// a block of up to 6 rows x 2 vectors at a time (Goto & van de Geijn 2008). Each element of C is one chain of
// multiply-adds in order of k, so its bits do not depend on how rows are blocked.
#if defined(PLUMB_KERNEL_TILE_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLUMB_KERNEL_TILE_PRODUCT_INL_H_
#undef PLUMB_KERNEL_TILE_PRODUCT_INL_H_
#else
#define PLUMB_KERNEL_TILE_PRODUCT_INL_H_
#endif

#include "plumb/kernel/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plumb {
namespace HWY_NAMESPACE {

constexpr std::size_t kBlockRows = 6;

/// A as the products read it: element (i, k) at data[i * stride + k], or, transposed, at data[i + k *
/// stride].
template <bool kTransposed>
struct Left {
  const float* data;
  std::size_t stride;

  HWY_INLINE float at(std::size_t i, std::size_t k) const {
    return data[kTransposed ? i + k * stride : i * stride + k];
  }
};

/// Where a product goes: C (rows, cols) at data, any stride; C = f A B, or C += f A B when `add`; f is
/// factor[row], or 1 when factor == nullptr. Nothing beyond cols is touched.
struct Result {
  float* data;
  std::size_t stride;
  bool add = false;
  const float* factor = nullptr;
};

/// kRows rows x kVecs vectors of C; the last vector has `last` elements if kPartial.
template <std::size_t kRows, std::size_t kVecs, bool kPartial, bool kTransposed>
HWY_INLINE void ProductBlock(std::size_t depth, Left<kTransposed> a, const float* b, std::size_t b_stride,
                             Result c, std::size_t last) {
  const Floats d;
  const std::size_t lanes = hn::Lanes(d);
  FloatVec acc[kRows][kVecs];
#pragma GCC unroll 8
  for (std::size_t i = 0; i < kRows; ++i)
#pragma GCC unroll 8
    for (std::size_t j = 0; j < kVecs; ++j) acc[i][j] = hn::Zero(d);
  for (std::size_t k = 0; k < depth; ++k, b += b_stride) {
    FloatVec row[kVecs];
#pragma GCC unroll 8
    for (std::size_t j = 0; j < kVecs; ++j) row[j] = hn::LoadU(d, b + j * lanes);
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kRows; ++i) {
      const FloatVec left = hn::Set(d, a.at(i, k));
#pragma GCC unroll 8
      for (std::size_t j = 0; j < kVecs; ++j) acc[i][j] = hn::MulAdd(left, row[j], acc[i][j]);
    }
  }
  if (c.factor)
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kRows; ++i)
#pragma GCC unroll 8
      for (std::size_t j = 0; j < kVecs; ++j) acc[i][j] = hn::Mul(acc[i][j], hn::Set(d, c.factor[i]));
#pragma GCC unroll 8
  for (std::size_t i = 0; i < kRows; ++i)
#pragma GCC unroll 8
    for (std::size_t j = 0; j < kVecs; ++j) {
      float* p = c.data + i * c.stride + j * lanes;
      if (kPartial && j + 1 == kVecs) {
        StoreFirst(c.add ? hn::Add(LoadFirst(d, last, p), acc[i][j]) : acc[i][j], d, last, p);
      } else {
        hn::StoreU(c.add ? hn::Add(hn::LoadU(d, p), acc[i][j]) : acc[i][j], d, p);
      }
    }
}

template <std::size_t kRows, bool kTransposed>
HWY_NOINLINE void ProductRows(std::size_t cols, std::size_t depth, Left<kTransposed> a, const float* b,
                              std::size_t b_stride, Result c) {
  const std::size_t lanes = hn::Lanes(Floats());
  std::size_t j = 0;
  for (; j + 2 * lanes <= cols; j += 2 * lanes, c.data += 2 * lanes)
    ProductBlock<kRows, 2, false>(depth, a, b + j, b_stride, c, 0);
  for (; j + lanes <= cols; j += lanes, c.data += lanes)
    ProductBlock<kRows, 1, false>(depth, a, b + j, b_stride, c, 0);
  if (j < cols) ProductBlock<kRows, 1, true>(depth, a, b + j, b_stride, c, cols - j);
}

/// C (rows <= kBlockRows, cols) from A (rows, depth) and B (depth, cols), whose rows are padded to whole
/// vectors.
template <bool kTransposed>
HWY_INLINE void Product(std::size_t rows, std::size_t cols, std::size_t depth, Left<kTransposed> a,
                        const float* b, std::size_t b_stride, Result c) {
  switch (rows) {
    case 6:
      return ProductRows<6>(cols, depth, a, b, b_stride, c);
    case 5:
      return ProductRows<5>(cols, depth, a, b, b_stride, c);
    case 4:
      return ProductRows<4>(cols, depth, a, b, b_stride, c);
    case 3:
      return ProductRows<3>(cols, depth, a, b, b_stride, c);
    case 2:
      return ProductRows<2>(cols, depth, a, b, b_stride, c);
    default:
      return ProductRows<1>(cols, depth, a, b, b_stride, c);
  }
}

/// Copies a (rows, cols) block into `to`, times `scale`, zeros up to the row stride of `to` (whole vectors).
/// Returns whether all of it is finite.
HWY_INLINE bool PackRows(View<const float> from, float scale, float* to, std::size_t stride) {
  const Floats d;
  const std::size_t lanes = hn::Lanes(d), cols = Size(from.cols);
  const auto factor = hn::Set(d, scale);
  auto zeros = hn::Zero(d);  // bits of v * 0: a NaN once v was Inf or NaN
  for (std::int64_t i = 0; i < from.rows; ++i, to += stride) {
    const float* row = from.row(i);
    std::size_t j = 0;
    for (; j + lanes <= cols; j += lanes) {
      const auto v = hn::LoadU(d, row + j);
      zeros = hn::Or(zeros, hn::Mul(v, hn::Zero(d)));
      hn::StoreU(hn::Mul(v, factor), d, to + j);
    }
    if (j < cols) {
      const auto v = LoadFirst(d, cols - j, row + j);
      zeros = hn::Or(zeros, hn::Mul(v, hn::Zero(d)));
      hn::StoreU(hn::Mul(v, factor), d, to + j);
      j += lanes;
    }
    for (; j < stride; j += lanes) hn::StoreU(hn::Zero(d), d, to + j);
  }
  return SumLanes(d, zeros) == 0.0f;
}

#if HWY_TARGET != HWY_SCALAR
using Quads =
    hn::CappedTag<float, HWY_CAP_GE256 ? 8 : 4>;  // one or two groups of four rows, transposed side by side

HWY_INLINE hn::Vec<Quads> LoadQuad(Quads d, const float* p, std::int64_t row_stride) {
#if HWY_CAP_GE256
  const hn::Half<Quads> half;
  return hn::Combine(d, hn::LoadU(half, p + 4 * row_stride), hn::LoadU(half, p));
#else
  (void)row_stride;
  return hn::LoadU(d, p);
#endif
}
#endif

/// Copies a (rows, cols) block transposed: to[j * stride + i] = scale * from(i, j), with zeros from row
/// `rows` to `padded` <= stride.
HWY_INLINE void PackTransposed(View<const float> from, float scale, float* to, std::size_t stride,
                               std::size_t padded) {
  const std::size_t rows = Size(from.rows), cols = Size(from.cols);
  std::size_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const Quads d;
  const std::int64_t step = from.stride;
  const auto factor = hn::Set(d, scale);
  for (; i + hn::Lanes(d) <= rows; i += hn::Lanes(d)) {
    const float* p = from.row(static_cast<std::int64_t>(i));
    std::size_t j = 0;
    for (; j + 4 <= cols; j += 4) {
      const auto r0 = LoadQuad(d, p + j, step), r1 = LoadQuad(d, p + j + step, step);
      const auto r2 = LoadQuad(d, p + j + 2 * step, step), r3 = LoadQuad(d, p + j + 3 * step, step);
      const auto even_lo = hn::InterleaveLower(d, r0, r2), odd_lo = hn::InterleaveLower(d, r1, r3);
      const auto even_hi = hn::InterleaveUpper(d, r0, r2), odd_hi = hn::InterleaveUpper(d, r1, r3);
      float* q = to + j * stride + i;
      hn::StoreU(hn::Mul(factor, hn::InterleaveLower(d, even_lo, odd_lo)), d, q);
      hn::StoreU(hn::Mul(factor, hn::InterleaveUpper(d, even_lo, odd_lo)), d, q + stride);
      hn::StoreU(hn::Mul(factor, hn::InterleaveLower(d, even_hi, odd_hi)), d, q + 2 * stride);
      hn::StoreU(hn::Mul(factor, hn::InterleaveUpper(d, even_hi, odd_hi)), d, q + 3 * stride);
    }
    for (; j < cols; ++j)
      for (std::size_t r = 0; r < hn::Lanes(d); ++r)
        to[j * stride + i + r] = scale * from.row(static_cast<std::int64_t>(i + r))[j];
  }
#endif
  for (; i < padded; ++i)
    for (std::size_t j = 0; j < cols; ++j)
      to[j * stride + i] = i < rows ? scale * from.row(static_cast<std::int64_t>(i))[j] : 0.0f;
}

}  // namespace HWY_NAMESPACE
}  // namespace plumb
HWY_AFTER_NAMESPACE();

#endif  // once per target
