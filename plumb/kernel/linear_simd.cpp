// Embedding, a x + b z, bias and sums, float by SIMD; double forwards to the plain twin (plain_linear.cpp
// says what accumulates). column_sums and embedding_backward add rows in order, so their bits are those of a
// plain float loop; sum and dot add in double, in lanes along a row, then row after row.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "plumb/kernel/linear_simd.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "plumb/kernel/rows.h"
#include "plumb/kernel/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plumb {
namespace HWY_NAMESPACE {
namespace {

void Axpby(double a, View<const float> x, double b, View<const float> z, View<float> y) {
  const Floats d;
  const auto va = hn::Set(d, float(a)), vb = hn::Set(d, float(b));
  for (std::int64_t i = 0; i < x.rows; ++i) {
    const float *px = x.row(i), *pz = z ? z.row(i) : nullptr;
    float* py = y.row(i);
    if (pz)
      ForRow(Size(x.cols), [&](std::size_t j, auto part) HWY_ATTR {
        part.store(hn::MulAdd(va, part.load(px + j), hn::Mul(vb, part.load(pz + j))), py + j);
      });
    else
      ForRow(Size(x.cols),
             [&](std::size_t j, auto part) HWY_ATTR { part.store(hn::Mul(va, part.load(px + j)), py + j); });
  }
}

void Pass(double a, View<const float> x, Sink<float> y) {
  if (!y) return;
  const auto factor = hn::Set(Floats(), float(a));
  for (std::int64_t i = 0; i < x.rows; ++i) {
    const float* px = x.row(i);
    float* py = y.v.row(i);
    ForRow(Size(x.cols), [&](std::size_t j, auto part) HWY_ATTR {
      Put(part, y.overwrite, hn::Mul(factor, part.load(px + j)), py + j);
    });
  }
}

/// y = x + bias; y may alias x.
void AddBias(View<const float> x, View<const float> bias, View<float> y) {
  for (std::int64_t i = 0; i < x.rows; ++i) {
    const float* px = x.row(i);
    float* py = y.row(i);
    ForRow(Size(x.cols), [&](std::size_t j, auto part) HWY_ATTR {
      part.store(hn::Add(part.load(px + j), part.load(bias.data + j)), py + j);
    });
  }
}

void EmbeddingForward(std::span<const std::int32_t> ids, View<const float> table, View<float> y) {
  for (std::int64_t i = 0; i < y.rows; ++i)
    std::memcpy(y.row(i), table.row(ids[Size(i)]), Size(y.cols) * sizeof(float));
}

void EmbeddingBackward(std::span<const std::int32_t> ids, View<const float> dy, Sink<float> dtable) {
  if (!dtable) return;
  for (std::int64_t i = 0; dtable.overwrite && i < dtable.v.rows; ++i)
    std::memset(dtable.v.row(i), 0, Size(dtable.v.cols) * sizeof(float));
  for (std::int64_t i = 0; i < dy.rows; ++i) {
    const float* from = dy.row(i);
    float* to = dtable.v.row(ids[Size(i)]);
    ForRow(Size(dy.cols),
           [&](std::size_t j, auto part) HWY_ATTR { Put(part, false, part.load(from + j), to + j); });
  }
}

/// Adds kRows rows, in order, to out: one load and store of out for all of them.
template <std::int64_t kRows>
HWY_INLINE void AddRows(View<const float> x, std::int64_t i, bool start, float* out) {
  ForRow(Size(x.cols), [&](std::size_t j, auto part) HWY_ATTR {
    auto total = part.load(start ? x.row(i) + j : out + j);
    if (!start) total = hn::Add(total, part.load(x.row(i) + j));
#pragma GCC unroll 8
    for (std::int64_t r = 1; r < kRows; ++r) total = hn::Add(total, part.load(x.row(i + r) + j));
    part.store(total, out + j);
  });
}

void ColumnSums(View<const float> x, Sink<float> out) {
  if (!out) return;
  if (out.overwrite && x.rows == 0) std::memset(out.v.data, 0, Size(x.cols) * sizeof(float));
  std::int64_t i = 0;
  for (; i + 8 <= x.rows; i += 8) AddRows<8>(x, i, out.overwrite && i == 0, out.v.data);
  for (; i < x.rows; ++i) AddRows<1>(x, i, out.overwrite && i == 0, out.v.data);
}

using Doubles = hn::ScalableTag<double>;
using HalfFloats = hn::Rebind<float, Doubles>;
using DoubleVec = hn::Vec<Doubles>;

/// n <= lanes floats as doubles, zeros above.
HWY_INLINE DoubleVec LoadDoubles(std::size_t n, const float* p) {
  const Doubles d;
  const HalfFloats half;
  return hn::PromoteTo(d, n == hn::Lanes(d) ? hn::LoadU(half, p) : LoadFirst(half, n, p));
}

/// Adds f(j, n) over the row, four vectors of double sums in turn, n elements from j.
template <class F>
HWY_INLINE double SumRow(std::size_t n, F f) {
  const Doubles d;
  const std::size_t lanes = hn::Lanes(d);
  DoubleVec s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  std::size_t j = 0;
  for (; j + 4 * lanes <= n; j += 4 * lanes) {
    s0 = f(s0, j, lanes);
    s1 = f(s1, j + lanes, lanes);
    s2 = f(s2, j + 2 * lanes, lanes);
    s3 = f(s3, j + 3 * lanes, lanes);
  }
  for (; j < n; j += lanes) s0 = f(s0, j, n - j < lanes ? n - j : lanes);
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
}

double Sum(View<const float> x) {
  double total = 0;
  for (std::int64_t i = 0; i < x.rows; ++i) {
    const float* p = x.row(i);
    total += SumRow(Size(x.cols), [&](DoubleVec s, std::size_t j, std::size_t n)
                                      HWY_ATTR { return hn::Add(s, LoadDoubles(n, p + j)); });
  }
  return total;
}

double Dot(View<const float> x, View<const float> y) {
  double total = 0;
  for (std::int64_t i = 0; i < x.rows; ++i) {
    const float *p = x.row(i), *q = y.row(i);
    total += SumRow(Size(x.cols), [&](DoubleVec s, std::size_t j, std::size_t n) HWY_ATTR {
      return hn::MulAdd(LoadDoubles(n, p + j), LoadDoubles(n, q + j), s);
    });
  }
  return total;
}

/// 0 * v is 0 or NaN, and the bits of a NaN survive Or.
bool AllFinite(View<const float> x) {
  const Floats d;
  for (std::int64_t i = 0; i < x.rows; ++i) {
    const float* p = x.row(i);
    for (std::size_t from = 0, n = Size(x.cols); from < n; from += 4096) {
      auto zeros = hn::Zero(d);
      ForRow(n - from < 4096 ? n - from : 4096, [&](std::size_t j, auto part) HWY_ATTR {
        zeros = hn::Or(zeros, hn::Mul(part.load(p + from + j), hn::Zero(d)));
      });
      if (!(SumLanes(d, zeros) == 0.0f)) return false;
    }
  }
  return true;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace plumb
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plumb {
namespace {
HWY_EXPORT(Axpby);
HWY_EXPORT(Pass);
HWY_EXPORT(AddBias);
HWY_EXPORT(EmbeddingForward);
HWY_EXPORT(EmbeddingBackward);
HWY_EXPORT(ColumnSums);
HWY_EXPORT(Sum);
HWY_EXPORT(Dot);
HWY_EXPORT(AllFinite);
template <class R>
constexpr bool kPlain = sizeof(R) == sizeof(double);
}  // namespace

template <class R>
void embedding_forward(std::span<const std::int32_t> ids, View<const R> table, View<R> y) {
  if constexpr (kPlain<R>)
    plain::embedding_forward(ids, table, y);
  else
    HWY_DYNAMIC_DISPATCH(EmbeddingForward)(ids, table, y);
}

template <class R>
void embedding_backward(std::span<const std::int32_t> ids, View<const R> dy, Sink<R> dtable) {
  if constexpr (kPlain<R>)
    plain::embedding_backward(ids, dy, dtable);
  else
    HWY_DYNAMIC_DISPATCH(EmbeddingBackward)(ids, dy, dtable);
}

template <class R>
void axpby(double a, View<const R> x, double b, View<const R> z, View<R> y) {
  if constexpr (kPlain<R>)
    plain::axpby(a, x, b, z, y);
  else
    HWY_DYNAMIC_DISPATCH(Axpby)(a, x, b, z, y);
}

template <class R>
void pass(double a, View<const R> x, Sink<R> y) {
  if constexpr (kPlain<R>)
    plain::pass(a, x, y);
  else
    HWY_DYNAMIC_DISPATCH(Pass)(a, x, y);
}

template <class R>
void column_sums(View<const R> x, Sink<R> out) {
  if constexpr (kPlain<R>)
    plain::column_sums(x, out);
  else
    HWY_DYNAMIC_DISPATCH(ColumnSums)(x, out);
}

template <class R>
void add_bias(View<const R> x, View<const R> bias, View<R> y) {
  if constexpr (kPlain<R>)
    plain::add_bias(x, bias, y);
  else
    HWY_DYNAMIC_DISPATCH(AddBias)(x, bias, y);
}

template <class R>
double sum(View<const R> x) {
  if constexpr (kPlain<R>)
    return plain::sum(x);
  else
    return HWY_DYNAMIC_DISPATCH(Sum)(x);
}

template <class R>
double dot(View<const R> x, View<const R> y) {
  if constexpr (kPlain<R>)
    return plain::dot(x, y);
  else
    return HWY_DYNAMIC_DISPATCH(Dot)(x, y);
}

template <class R>
double sum_squares(View<const R> x) {
  return plumb::dot(x, x);
}

template <class R>
bool all_finite(View<const R> x) {
  if constexpr (kPlain<R>)
    return plain::all_finite(x);
  else
    return HWY_DYNAMIC_DISPATCH(AllFinite)(x);
}

#define PLUMB_INSTANTIATE(R)                                                               \
  template void embedding_forward(std::span<const std::int32_t>, View<const R>, View<R>);  \
  template void embedding_backward(std::span<const std::int32_t>, View<const R>, Sink<R>); \
  template void axpby(double, View<const R>, double, View<const R>, View<R>);              \
  template void pass(double, View<const R>, Sink<R>);                                      \
  template void column_sums(View<const R>, Sink<R>);                                       \
  template void add_bias(View<const R>, View<const R>, View<R>);                           \
  template double sum(View<const R>);                                                      \
  template double dot(View<const R>, View<const R>);                                       \
  template double sum_squares(View<const R>);                                              \
  template bool all_finite(View<const R>);
PLUMB_INSTANTIATE(float)
PLUMB_INSTANTIATE(double)
#undef PLUMB_INSTANTIATE

}  // namespace plumb
#endif  // HWY_ONCE
