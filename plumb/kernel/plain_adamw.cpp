// Plain twin of AdamW, element by element, in double whatever R is (Loshchilov & Hutter 2017, arXiv
// 1711.05101).
#include <cmath>

#include "plumb/kernel/adamw.h"

namespace plumb::plain {

template <class R>
void adamw(std::int64_t n, const AdamWStep& step, const R* g, R* p, R* m, R* v) {
  for (std::int64_t i = 0; i < n; ++i) {
    const double grad = step.grad_scale * double(g[i]);
    m[i] = R(step.beta1 * double(m[i]) + (1 - step.beta1) * grad);
    v[i] = R(step.beta2 * double(v[i]) + (1 - step.beta2) * grad * grad);
    const double decayed = double(p[i]) * (1 - step.shrink);
    const double m_hat = double(m[i]) / step.bias1, v_hat = double(v[i]) / step.bias2;
    p[i] = R(decayed - step.lr * m_hat / (std::sqrt(v_hat) + step.eps));
  }
}

template void adamw(std::int64_t, const AdamWStep&, const float*, float*, float*, float*);
template void adamw(std::int64_t, const AdamWStep&, const double*, double*, double*, double*);

}  // namespace plumb::plain
