// Plain twin of softmax cross-entropy, in double whatever R is.
//
//   loss_i = logsumexp(z_i) - z_i[target_i]   in nats;  logsumexp(z) = max z + log sum exp(z - max z)
//   dz_i = (exp(z_i - lse_i) - onehot(target_i)) scale
//
// logits, dlogits: (rows, V); target: rows; lse: (rows, 1), kept for every row. A row whose target is
// ignore_index adds nothing to the loss and has gradient 0. dlogits overwrites or adds as its sink says.
#include <cmath>
#include <limits>

#include "plumb/kernel/rows.h"

namespace plumb::plain {

template <class R>
double cross_entropy_forward(View<const R> logits, std::span<const std::int32_t> target,
                             std::int64_t ignore_index, View<R> lse) {
  double loss = 0;
  for (std::int64_t i = 0; i < logits.rows; ++i) {
    const R* z = logits.row(i);
    double top = -std::numeric_limits<double>::infinity(), total = 0;
    for (std::int64_t j = 0; j < logits.cols; ++j)
      if (double(z[j]) > top) top = double(z[j]);
    for (std::int64_t j = 0; j < logits.cols; ++j) total += std::exp(double(z[j]) - top);
    const double l = top + std::log(total);
    *lse.row(i) = R(l);
    const std::int64_t t = target[std::size_t(i)];
    if (t != ignore_index) loss += l - double(z[t]);
  }
  return loss;
}

template <class R>
void cross_entropy_backward(View<const R> logits, std::span<const std::int32_t> target,
                            std::int64_t ignore_index, View<const R> lse, double scale, Sink<R> dlogits) {
  if (!dlogits) return;
  for (std::int64_t i = 0; i < logits.rows; ++i) {
    const std::int64_t t = target[std::size_t(i)];
    for (std::int64_t j = 0; j < logits.cols; ++j) {
      const double p = std::exp(double(logits.row(i)[j]) - double(*lse.row(i)));
      const double d = t == ignore_index ? 0 : (p - (j == t ? 1 : 0)) * scale;
      R& out = dlogits.v.row(i)[j];
      out = R(dlogits.overwrite ? d : double(out) + d);
    }
  }
}

#define PLUMB_INSTANTIATE(R)                                                                        \
  template double cross_entropy_forward(View<const R>, std::span<const std::int32_t>, std::int64_t, \
                                        View<R>);                                                   \
  template void cross_entropy_backward(View<const R>, std::span<const std::int32_t>, std::int64_t,  \
                                       View<const R>, double, Sink<R>);
PLUMB_INSTANTIATE(float)
PLUMB_INSTANTIATE(double)
#undef PLUMB_INSTANTIATE

}  // namespace plumb::plain
