// Pointwise squashing that stands in for a norm: tanh (DyT) and erf (Derf).
#pragma once
#include "plumb/tensor/view.h"

namespace plumb {

/// Gradients of the two scalars, summed over all elements in double.
struct SquashGrads {
  double alpha = 0, shift = 0;
};

/// y = f(alpha x + shift) gamma + beta; f = erf or tanh. x, y (rows, C); gamma, beta (C) or empty. DyT: Zhu
/// et al. 2025, arXiv 2503.10622, eq. 1; Derf: arXiv 2512.10938. double: the C library's functions; float:
/// SIMD, within 4 ulp of them.
template <class R>
void squash_forward(bool erf, View<const R> x, double alpha, double shift, View<const R> gamma,
                    View<const R> beta, View<R> y);

/// With u = alpha x + shift and g = dy gamma f'(u): dx = alpha g, dalpha = Σ g x, dshift = Σ g, dgamma = Σ dy
/// f(u) and dbeta = Σ dy over rows; tanh' = 1 - tanh^2, erf'(u) = 2/sqrt(pi) e^(-u^2). Sinks as they say,
/// empty ones are skipped.
template <class R>
SquashGrads squash_backward(bool erf, View<const R> dy, View<const R> x, double alpha, double shift,
                            View<const R> gamma, Sink<R> dx, Sink<R> dgamma, Sink<R> dbeta);

}  // namespace plumb
