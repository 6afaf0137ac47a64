// What the SIMD kernels share, once per Highway target: loads and stores that stop at the end of a row, a sum
// or maximum of lanes, and exp. Included by the *_simd.cpp files only.
#if defined(PLUMB_KERNEL_SIMD_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLUMB_KERNEL_SIMD_MATH_INL_H_
#undef PLUMB_KERNEL_SIMD_MATH_INL_H_
#else
#define PLUMB_KERNEL_SIMD_MATH_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "hwy/highway.h"
#include "plumb/tensor/view.h"

HWY_BEFORE_NAMESPACE();
namespace plumb {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using FloatVec = hn::Vec<Floats>;
using FloatMask = hn::Mask<Floats>;

HWY_INLINE std::size_t Size(std::int64_t n) { return static_cast<std::size_t>(n); }

/// The first n < lanes elements at p, zeros above. Never touches p[n].
template <class D>
HWY_INLINE hn::Vec<D> LoadFirst(D d, std::size_t n, const hn::TFromD<D>* p) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  return hn::MaskedLoad(hn::FirstN(d, n), d, p);
#else
  HWY_ALIGN hn::TFromD<D> buffer[HWY_MAX_BYTES / sizeof(hn::TFromD<D>)] = {};
  std::memcpy(buffer, p, n * sizeof(*p));
  return hn::Load(d, buffer);
#endif
}

/// Stores the first n < lanes elements of v. Never touches p[n].
template <class D>
HWY_INLINE void StoreFirst(hn::Vec<D> v, D d, std::size_t n, hn::TFromD<D>* p) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  hn::BlendedStore(v, hn::FirstN(d, n), d, p);
#else
  HWY_ALIGN hn::TFromD<D> buffer[HWY_MAX_BYTES / sizeof(hn::TFromD<D>)];
  hn::Store(v, d, buffer);
  std::memcpy(p, buffer, n * sizeof(*p));
#endif
}

/// A vector that lies whole inside a row.
struct Whole {
  HWY_INLINE FloatVec load(const float* p) const { return hn::LoadU(Floats(), p); }
  HWY_INLINE void store(FloatVec v, float* p) const { hn::StoreU(v, Floats(), p); }
  HWY_INLINE FloatVec keep(FloatVec v) const { return v; }
};

/// The last, partial vector of a row: loads zeros beyond it, stores nothing there.
struct First {
  std::size_t n;
  HWY_INLINE FloatVec load(const float* p) const { return LoadFirst(Floats(), n, p); }
  HWY_INLINE void store(FloatVec v, float* p) const { StoreFirst(v, Floats(), n, p); }
  HWY_INLINE FloatVec keep(FloatVec v) const { return hn::IfThenElseZero(hn::FirstN(Floats(), n), v); }
};

/// Calls f(j, part) for the vectors of a row of n elements, in order.
template <class F>
HWY_INLINE void ForRow(std::size_t n, F f) {
  const std::size_t lanes = hn::Lanes(Floats());
  std::size_t j = 0;
  for (; j + lanes <= n; j += lanes) f(j, Whole());
  if (j < n) f(j, First{n - j});
}

/// Writes v, or adds it to what is there.
template <class Part>
HWY_INLINE void Put(Part part, bool overwrite, FloatVec v, float* p) {
  part.store(overwrite ? v : hn::Add(part.load(p), v), p);
}

HWY_INLINE float SumLanes(Floats d, FloatVec v) { return hn::GetLane(hn::SumOfLanes(d, v)); }
HWY_INLINE float MaxLanes(Floats d, FloatVec v) { return hn::GetLane(hn::MaxOfLanes(d, v)); }

/// q[i] <- q[i] x[i] + c for each further coefficient c, highest power first.
template <std::size_t kCount, class... C>
HWY_INLINE void Horner(Floats d, FloatVec (&q)[kCount], const FloatVec (&x)[kCount], float c, C... rest) {
#pragma GCC unroll 8
  for (std::size_t i = 0; i < kCount; ++i) q[i] = hn::MulAdd(q[i], x[i], hn::Set(d, c));
  if constexpr (sizeof...(C) > 0) Horner(d, q, x, rest...);
}

/// x[i] -> e^x[i] for x <= 88, relative error below 1.5e-7 with FMA; 0 for x < -87.33 (no subnormals), NaN
/// for NaN. x = n ln 2 + r, |r| <= ln 2 / 2; e^r = 1 + r + r^2 Q(r). Q is our own minimax fit (Remez exchange
/// in 113-bit arithmetic) of the relative error of e^r: 3.1e-9. Adding 1.5 * 2^23 + 127 rounds x / ln 2 to n
/// and leaves n + 127, the exponent field of 2^n, in the low bits.
///
/// kCount vectors in step: each is one long chain, and a core's scheduler holds too few instructions to
/// overlap chains that follow one another.
template <std::size_t kCount>
HWY_INLINE void Exp(Floats d, FloatVec (&x)[kCount]) {
  const hn::RebindToUnsigned<Floats> du;
  const auto magic = hn::Set(d, 12582912.0f + 127.0f);
  FloatVec power[kCount], r[kCount], q[kCount];
#pragma GCC unroll 8
  for (std::size_t i = 0; i < kCount; ++i) power[i] = hn::MulAdd(x[i], hn::Set(d, 1.44269504089f), magic);
#pragma GCC unroll 8
  for (std::size_t i = 0; i < kCount; ++i) {  // ln 2 in two parts, the first exact times n
    const auto n = hn::Sub(power[i], magic);
    r[i] = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x[i]));
  }
#pragma GCC unroll 8
  for (std::size_t i = 0; i < kCount; ++i)
    q[i] = hn::MulAdd(r[i], hn::Set(d, 1.3814539335e-3f), hn::Set(d, 8.3687451231e-3f));
  Horner(d, q, r, 4.1668390802e-2f, 1.6666520399e-1f, 4.9999993432e-1f);
#pragma GCC unroll 8
  for (std::size_t i = 0; i < kCount; ++i) q[i] = hn::MulAdd(hn::Mul(r[i], r[i]), q[i], r[i]);
#pragma GCC unroll 8
  for (std::size_t i = 0; i < kCount; ++i) {
    power[i] = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(du, power[i])));
    x[i] = hn::IfThenZeroElse(hn::Lt(x[i], hn::Set(d, -87.33f)), hn::MulAdd(q[i], power[i], power[i]));
  }
}

/// cdf[i] = Phi(x[i]) and bell[i] = e^(-x[i]^2 / 2).
///
/// Phi(-a) = e^(-a^2 / 2) P(t), t = 1 / (1 + 0.305 a), a >= 0: the form of Abramowitz & Stegun 7.1.26
/// (Hastings 1955), with P our own minimax fit (Remez exchange in 113-bit arithmetic, degree 8, no constant
/// term) of the relative error over 0 <= a <= 13.5: 9.4e-8; the shift 0.305 is the best on a grid. So tails
/// are relatively exact too (to about 1e-6, the rounding of a^2 / 2), and x Phi(x) is within 1.1e-7 max(1,
/// |x|). Beyond |x| = 13.2 the tail is 0. NaN stays NaN.
template <std::size_t kCount>
HWY_INLINE void NormalCdf(Floats d, const FloatVec (&x)[kCount], FloatVec (&cdf)[kCount],
                          FloatVec (&bell)[kCount]) {
  FloatVec t[kCount], p[kCount];
#pragma GCC unroll 8
  for (std::size_t i = 0; i < kCount; ++i) {
    const auto a = hn::Abs(x[i]);
    bell[i] = hn::Mul(hn::Mul(a, a), hn::Set(d, -0.5f));
    t[i] = hn::Div(hn::Set(d, 1.0f), hn::MulAdd(a, hn::Set(d, 0.305f), hn::Set(d, 1.0f)));
    p[i] = hn::MulAdd(t[i], hn::Set(d, 3.669918911e-2f), hn::Set(d, -1.529883047e-1f));
  }
  Exp(d, bell);
  Horner(d, p, t, 1.857168861e-1f, -3.797681011e-2f, 1.210216679e-1f, 1.034208696e-1f, 1.224668165e-1f,
         1.216397327e-1f);
#pragma GCC unroll 8
  for (std::size_t i = 0; i < kCount; ++i) {
    const auto tail = hn::Mul(hn::Mul(p[i], t[i]), bell[i]);
    cdf[i] = hn::IfThenElse(hn::Lt(x[i], hn::Zero(d)), tail, hn::Sub(hn::Set(d, 1.0f), tail));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace plumb
HWY_AFTER_NAMESPACE();

#endif  // once per target
