// LayerNorm and RMSNorm, float by SIMD; double forwards to the plain twin (plain_norm.cpp has the formulas
// and says what accumulates). Four rows at a time: their sums are independent chains, and a parameter
// gradient is loaded and stored once for four rows, still added row after row. A row's bits do not depend on
// the rows beside it.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "plumb/kernel/norm_simd.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include <cmath>

#include "plumb/kernel/rows.h"
#include "plumb/kernel/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plumb {
namespace HWY_NAMESPACE {
namespace {

constexpr std::int64_t kGroup = 4;  // rows at a time

/// f.template operator()<kRows>(first row) for groups of kGroup rows, then for single ones.
template <class F>
HWY_INLINE void ForGroups(std::int64_t rows, F f) {
  std::int64_t i = 0;
  for (; i + kGroup <= rows; i += kGroup) f.template run<kGroup>(i);
  for (; i < rows; ++i) f.template run<1>(i);
}

/// gamma[j …] or ones.
template <class Part>
HWY_INLINE FloatVec Gain(Part part, View<const float> gamma, std::size_t j) {
  return gamma ? part.load(gamma.data + j) : hn::Set(Floats(), 1.0f);
}

/// Adds v to a parameter gradient that row 0 starts.
template <std::int64_t kRows, class Part>
HWY_INLINE void PutParameter(Part part, Sink<float> s, std::int64_t i, std::size_t j,
                             const FloatVec (&v)[kRows]) {
  float* p = s.v.data + j;
  FloatVec total = s.overwrite && i == 0 ? v[0] : hn::Add(part.load(p), v[0]);
#pragma GCC unroll 8
  for (std::int64_t r = 1; r < kRows; ++r) total = hn::Add(total, v[r]);
  part.store(total, p);
}

struct LayerNorm {
  View<const float> x, gamma, beta;
  double eps;
  View<float> y, mean, rstd;

  template <std::int64_t kRows>
  HWY_INLINE void run(std::int64_t i) const {
    const Floats d;
    const std::size_t n = Size(x.cols);
    FloatVec sum[kRows], m[kRows], s[kRows];
#pragma GCC unroll 8
    for (std::int64_t r = 0; r < kRows; ++r) sum[r] = hn::Zero(d);
    ForRow(n, [&](std::size_t j, auto part) HWY_ATTR {
#pragma GCC unroll 8
      for (std::int64_t r = 0; r < kRows; ++r) sum[r] = hn::Add(sum[r], part.load(x.row(i + r) + j));
    });
#pragma GCC unroll 8
    for (std::int64_t r = 0; r < kRows; ++r) {
      *mean.row(i + r) = float(double(SumLanes(d, sum[r])) / double(n));
      m[r] = hn::Set(d, *mean.row(i + r));
      sum[r] = hn::Zero(d);
    }
    ForRow(n, [&](std::size_t j, auto part) HWY_ATTR {
#pragma GCC unroll 8
      for (std::int64_t r = 0; r < kRows; ++r) {
        const auto c = part.keep(hn::Sub(part.load(x.row(i + r) + j), m[r]));
        sum[r] = hn::MulAdd(c, c, sum[r]);
      }
    });
#pragma GCC unroll 8
    for (std::int64_t r = 0; r < kRows; ++r) {
      *rstd.row(i + r) = float(1 / std::sqrt(double(SumLanes(d, sum[r])) / double(n) + eps));
      s[r] = hn::Set(d, *rstd.row(i + r));
    }
    ForRow(n, [&](std::size_t j, auto part) HWY_ATTR {
      const auto g = Gain(part, gamma, j), b = beta ? part.load(beta.data + j) : hn::Zero(d);
#pragma GCC unroll 8
      for (std::int64_t r = 0; r < kRows; ++r) {
        const auto xhat = hn::Mul(hn::Sub(part.load(x.row(i + r) + j), m[r]), s[r]);
        part.store(hn::MulAdd(xhat, g, b), y.row(i + r) + j);
      }
    });
  }
};

struct LayerNormGrad {
  View<const float> dy, x, gamma, mean, rstd;
  Sink<float> dx, dgamma, dbeta;

  template <std::int64_t kRows>
  HWY_INLINE void run(std::int64_t i) const {
    const Floats d;
    const std::size_t n = Size(x.cols);
    FloatVec m[kRows], s[kRows], sum_g[kRows], sum_gx[kRows];
#pragma GCC unroll 8
    for (std::int64_t r = 0; r < kRows; ++r) {
      m[r] = hn::Set(d, *mean.row(i + r));
      s[r] = hn::Set(d, *rstd.row(i + r));
      sum_g[r] = sum_gx[r] = hn::Zero(d);
    }
    ForRow(n, [&](std::size_t j, auto part) HWY_ATTR {
      const auto gain = Gain(part, gamma, j);
#pragma GCC unroll 8
      for (std::int64_t r = 0; r < kRows; ++r) {
        const auto g = hn::Mul(part.load(dy.row(i + r) + j), gain);  // 0 beyond the row
        const auto xhat = hn::Mul(hn::Sub(part.load(x.row(i + r) + j), m[r]), s[r]);
        sum_g[r] = hn::Add(sum_g[r], g);
        sum_gx[r] = hn::MulAdd(g, xhat, sum_gx[r]);
      }
    });
#pragma GCC unroll 8
    for (std::int64_t r = 0; r < kRows; ++r) {
      sum_g[r] = hn::Set(d, float(double(SumLanes(d, sum_g[r])) / double(n)));
      sum_gx[r] = hn::Set(d, float(double(SumLanes(d, sum_gx[r])) / double(n)));
    }
    ForRow(n, [&](std::size_t j, auto part) HWY_ATTR {
      const auto gain = Gain(part, gamma, j);
      FloatVec g[kRows], xhat[kRows], product[kRows];
#pragma GCC unroll 8
      for (std::int64_t r = 0; r < kRows; ++r) {
        g[r] = part.load(dy.row(i + r) + j);
        xhat[r] = hn::Mul(hn::Sub(part.load(x.row(i + r) + j), m[r]), s[r]);
        product[r] = hn::Mul(g[r], xhat[r]);
      }
      if (dgamma) PutParameter<kRows>(part, dgamma, i, j, product);
      if (dbeta) PutParameter<kRows>(part, dbeta, i, j, g);
      if (!dx) return;
#pragma GCC unroll 8
      for (std::int64_t r = 0; r < kRows; ++r) {
        const auto centred = hn::NegMulAdd(xhat[r], sum_gx[r], hn::Sub(hn::Mul(g[r], gain), sum_g[r]));
        Put(part, dx.overwrite, hn::Mul(centred, s[r]), dx.v.row(i + r) + j);
      }
    });
  }
};

struct RmsNorm {
  View<const float> x, gamma;
  double eps;
  View<float> y, rstd;

  template <std::int64_t kRows>
  HWY_INLINE void run(std::int64_t i) const {
    const Floats d;
    const std::size_t n = Size(x.cols);
    FloatVec sum[kRows], s[kRows];
#pragma GCC unroll 8
    for (std::int64_t r = 0; r < kRows; ++r) sum[r] = hn::Zero(d);
    ForRow(n, [&](std::size_t j, auto part) HWY_ATTR {
#pragma GCC unroll 8
      for (std::int64_t r = 0; r < kRows; ++r) {
        const auto v = part.load(x.row(i + r) + j);
        sum[r] = hn::MulAdd(v, v, sum[r]);
      }
    });
#pragma GCC unroll 8
    for (std::int64_t r = 0; r < kRows; ++r) {
      *rstd.row(i + r) = float(1 / std::sqrt(double(SumLanes(d, sum[r])) / double(n) + eps));
      s[r] = hn::Set(d, *rstd.row(i + r));
    }
    ForRow(n, [&](std::size_t j, auto part) HWY_ATTR {
      const auto g = Gain(part, gamma, j);
#pragma GCC unroll 8
      for (std::int64_t r = 0; r < kRows; ++r)
        part.store(hn::Mul(hn::Mul(part.load(x.row(i + r) + j), s[r]), g), y.row(i + r) + j);
    });
  }
};

struct RmsNormGrad {
  View<const float> dy, x, gamma, rstd;
  Sink<float> dx, dgamma;

  template <std::int64_t kRows>
  HWY_INLINE void run(std::int64_t i) const {
    const Floats d;
    const std::size_t n = Size(x.cols);
    FloatVec s[kRows], sum_gx[kRows];
#pragma GCC unroll 8
    for (std::int64_t r = 0; r < kRows; ++r) {
      s[r] = hn::Set(d, *rstd.row(i + r));
      sum_gx[r] = hn::Zero(d);
    }
    ForRow(n, [&](std::size_t j, auto part) HWY_ATTR {
      const auto gain = Gain(part, gamma, j);
#pragma GCC unroll 8
      for (std::int64_t r = 0; r < kRows; ++r) {
        const auto xhat = hn::Mul(part.load(x.row(i + r) + j), s[r]);
        sum_gx[r] = hn::MulAdd(hn::Mul(part.load(dy.row(i + r) + j), gain), xhat, sum_gx[r]);
      }
    });
#pragma GCC unroll 8
    for (std::int64_t r = 0; r < kRows; ++r)
      sum_gx[r] = hn::Set(d, float(double(SumLanes(d, sum_gx[r])) / double(n)));
    ForRow(n, [&](std::size_t j, auto part) HWY_ATTR {
      const auto gain = Gain(part, gamma, j);
      FloatVec g[kRows], xhat[kRows], product[kRows];
#pragma GCC unroll 8
      for (std::int64_t r = 0; r < kRows; ++r) {
        g[r] = part.load(dy.row(i + r) + j);
        xhat[r] = hn::Mul(part.load(x.row(i + r) + j), s[r]);
        product[r] = hn::Mul(g[r], xhat[r]);
      }
      if (dgamma) PutParameter<kRows>(part, dgamma, i, j, product);
      if (!dx) return;
#pragma GCC unroll 8
      for (std::int64_t r = 0; r < kRows; ++r)
        Put(part, dx.overwrite, hn::Mul(hn::NegMulAdd(xhat[r], sum_gx[r], hn::Mul(g[r], gain)), s[r]),
            dx.v.row(i + r) + j);
    });
  }
};

void LayerNormForward(View<const float> x, View<const float> gamma, View<const float> beta, double eps,
                      View<float> y, View<float> mean, View<float> rstd) {
  ForGroups(x.rows, LayerNorm{x, gamma, beta, eps, y, mean, rstd});
}

void LayerNormBackward(View<const float> dy, View<const float> x, View<const float> gamma,
                       View<const float> mean, View<const float> rstd, Sink<float> dx, Sink<float> dgamma,
                       Sink<float> dbeta) {
  ForGroups(x.rows, LayerNormGrad{dy, x, gamma, mean, rstd, dx, dgamma, dbeta});
}

void RmsNormForward(View<const float> x, View<const float> gamma, double eps, View<float> y,
                    View<float> rstd) {
  ForGroups(x.rows, RmsNorm{x, gamma, eps, y, rstd});
}

void RmsNormBackward(View<const float> dy, View<const float> x, View<const float> gamma,
                     View<const float> rstd, Sink<float> dx, Sink<float> dgamma) {
  ForGroups(x.rows, RmsNormGrad{dy, x, gamma, rstd, dx, dgamma});
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace plumb
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plumb {
namespace {
HWY_EXPORT(LayerNormForward);
HWY_EXPORT(LayerNormBackward);
HWY_EXPORT(RmsNormForward);
HWY_EXPORT(RmsNormBackward);
template <class R>
constexpr bool kPlain = sizeof(R) == sizeof(double);
}  // namespace

template <class R>
void layer_norm_forward(View<const R> x, View<const R> gamma, View<const R> beta, double eps, View<R> y,
                        View<R> mean, View<R> rstd) {
  if constexpr (kPlain<R>)
    plain::layer_norm_forward(x, gamma, beta, eps, y, mean, rstd);
  else
    HWY_DYNAMIC_DISPATCH(LayerNormForward)(x, gamma, beta, eps, y, mean, rstd);
}

template <class R>
void layer_norm_backward(View<const R> dy, View<const R> x, View<const R> gamma, View<const R> mean,
                         View<const R> rstd, Sink<R> dx, Sink<R> dgamma, Sink<R> dbeta) {
  if constexpr (kPlain<R>)
    plain::layer_norm_backward(dy, x, gamma, mean, rstd, dx, dgamma, dbeta);
  else
    HWY_DYNAMIC_DISPATCH(LayerNormBackward)(dy, x, gamma, mean, rstd, dx, dgamma, dbeta);
}

template <class R>
void rms_norm_forward(View<const R> x, View<const R> gamma, double eps, View<R> y, View<R> rstd) {
  if constexpr (kPlain<R>)
    plain::rms_norm_forward(x, gamma, eps, y, rstd);
  else
    HWY_DYNAMIC_DISPATCH(RmsNormForward)(x, gamma, eps, y, rstd);
}

template <class R>
void rms_norm_backward(View<const R> dy, View<const R> x, View<const R> gamma, View<const R> rstd, Sink<R> dx,
                       Sink<R> dgamma) {
  if constexpr (kPlain<R>)
    plain::rms_norm_backward(dy, x, gamma, rstd, dx, dgamma);
  else
    HWY_DYNAMIC_DISPATCH(RmsNormBackward)(dy, x, gamma, rstd, dx, dgamma);
}

#define PLUMB_INSTANTIATE(R)                                                                              \
  template void layer_norm_forward(View<const R>, View<const R>, View<const R>, double, View<R>, View<R>, \
                                   View<R>);                                                              \
  template void layer_norm_backward(View<const R>, View<const R>, View<const R>, View<const R>,           \
                                    View<const R>, Sink<R>, Sink<R>, Sink<R>);                            \
  template void rms_norm_forward(View<const R>, View<const R>, double, View<R>, View<R>);                 \
  template void rms_norm_backward(View<const R>, View<const R>, View<const R>, View<const R>, Sink<R>,    \
                                  Sink<R>);
PLUMB_INSTANTIATE(float)
PLUMB_INSTANTIATE(double)
#undef PLUMB_INSTANTIATE

}  // namespace plumb
#endif  // HWY_ONCE
