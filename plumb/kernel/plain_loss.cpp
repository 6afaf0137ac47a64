// Plain twin of softmax cross-entropy, in double whatever R is.
//
//   loss_i = logsumexp(z_i) - z_i[target_i]   in nats;  logsumexp(z) = max z + log sum exp(z - max z)
//   terms_i = epsilon (z_i[target_i] - mean z_i) + z_loss lse_i^2
//   dz_i = (exp(z_i - lse_i) (1 + 2 z_loss lse_i) - (1 - epsilon) onehot(target_i) - epsilon / V) scale
//
// Smoothing: the target (1 - epsilon) onehot + epsilon / V has the loss lse - (1 - epsilon) z[target] -
// epsilon mean z.
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
double loss_terms(View<const R> logits, std::span<const std::int32_t> target, std::int64_t ignore_index,
                  View<const R> lse, const LossTerms& terms) {
  double sum = 0;
  for (std::int64_t i = 0; i < logits.rows; ++i) {
    const std::int64_t t = target[std::size_t(i)];
    if (t == ignore_index) continue;
    const double l = double(*lse.row(i));
    if (terms.z_loss != 0) sum += terms.z_loss * l * l;
    if (terms.label_smoothing == 0) continue;
    double total = 0;
    for (std::int64_t j = 0; j < logits.cols; ++j) total += double(logits.row(i)[j]);
    sum += terms.label_smoothing * (double(logits.row(i)[t]) - total / double(logits.cols));
  }
  return sum;
}

template <class R>
void cross_entropy_backward(View<const R> logits, std::span<const std::int32_t> target,
                            std::int64_t ignore_index, View<const R> lse, double scale, Sink<R> dlogits,
                            const LossTerms& terms) {
  if (!dlogits) return;
  const double spread = terms.label_smoothing / double(logits.cols), one = 1 - terms.label_smoothing;
  for (std::int64_t i = 0; i < logits.rows; ++i) {
    const std::int64_t t = target[std::size_t(i)];
    const double tilt = 1 + 2 * terms.z_loss * double(*lse.row(i));
    for (std::int64_t j = 0; j < logits.cols; ++j) {
      const double p = std::exp(double(logits.row(i)[j]) - double(*lse.row(i)));
      const double d = t == ignore_index ? 0 : (p * tilt - (j == t ? one : 0) - spread) * scale;
      R& out = dlogits.v.row(i)[j];
      out = R(dlogits.overwrite ? d : double(out) + d);
    }
  }
}

#define PLUMB_INSTANTIATE(R)                                                                            \
  template double cross_entropy_forward(View<const R>, std::span<const std::int32_t>, std::int64_t,     \
                                        View<R>);                                                       \
  template void cross_entropy_backward(View<const R>, std::span<const std::int32_t>, std::int64_t,      \
                                       View<const R>, double, Sink<R>, const LossTerms&);               \
  template double loss_terms(View<const R>, std::span<const std::int32_t>, std::int64_t, View<const R>, \
                             const LossTerms&);
PLUMB_INSTANTIATE(float)
PLUMB_INSTANTIATE(double)
#undef PLUMB_INSTANTIATE

}  // namespace plumb::plain
