// AdamW over a run of one flat buffer (Loshchilov & Hutter 2017, arXiv 1711.05101).
#pragma once
#include <cstdint>

namespace plumb {

struct AdamWStep {
  double lr = 0, beta1 = 0.9, beta2 = 0.95, eps = 1e-8;
  double shrink = 0;       // p <- p (1 - shrink) first
  double grad_scale = 1;   // the clip coefficient, applied to g on the way
  double bias1 = 1, bias2 = 1;  // 1 - beta1^t, 1 - beta2^t
};

/// p <- p (1 - shrink); m, v updated with grad_scale * g; p <- p - lr (m / bias1) / (sqrt(v / bias2) + eps).
/// n elements; double: plain loop, float: SIMD. Element-wise, so any cut of a buffer gives the same bits.
template <class R>
void adamw(std::int64_t n, const AdamWStep&, const R* g, R* p, R* m, R* v);
namespace plain {
template <class R>
void adamw(std::int64_t n, const AdamWStep&, const R* g, R* p, R* m, R* v);
}

}  // namespace plumb
