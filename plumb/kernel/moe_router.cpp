#include "plumb/kernel/moe_router.h"

#include <algorithm>
#include <cmath>

namespace plumb {

template <class R>
void moe_route(View<const R> logits, View<R> prob, View<R> lse, View<R> index, View<R> weight) {
  for (std::int64_t i = 0; i < logits.rows; ++i) {
    const R* x = logits.row(i);
    R* p = prob.row(i);
    R top = x[0];
    for (std::int64_t e = 1; e < logits.cols; ++e) top = x[e] > top ? x[e] : top;
    double z = 0;
    for (std::int64_t e = 0; e < logits.cols; ++e)
      z += std::exp(static_cast<double>(x[e]) - static_cast<double>(top));
    const double log_sum = static_cast<double>(top) + std::log(z);
    *lse.row(i) = static_cast<R>(log_sum);
    for (std::int64_t e = 0; e < logits.cols; ++e)
      p[e] = static_cast<R>(std::exp(static_cast<double>(x[e]) - log_sum));

    R *chosen = index.row(i), *w = weight.row(i);
    double sum = 0;
    for (std::int64_t c = 0; c < index.cols; ++c) {
      std::int64_t best = -1;
      for (std::int64_t e = 0; e < logits.cols; ++e) {
        if (std::find(chosen, chosen + c, static_cast<R>(e)) != chosen + c) continue;
        if (best < 0 || x[e] > x[best]) best = e;
      }
      chosen[c] = static_cast<R>(best);
      sum += static_cast<double>(p[best]);
    }
    for (std::int64_t c = 0; c < index.cols; ++c)
      w[c] = static_cast<R>(static_cast<double>(p[static_cast<std::int64_t>(chosen[c])]) / sum);
  }
}

template <class R>
double moe_balance(View<const R> prob, View<const R> index, View<R> count) {
  const auto n = static_cast<double>(prob.rows);
  std::fill_n(count.data, count.cols, R(0));
  for (std::int64_t i = 0; i < index.rows; ++i)
    for (std::int64_t c = 0; c < index.cols; ++c)
      count.data[static_cast<std::int64_t>(index.row(i)[c])] += R(1);
  double total = 0;
  for (std::int64_t e = 0; e < prob.cols; ++e) {
    double p = 0;
    for (std::int64_t i = 0; i < prob.rows; ++i) p += static_cast<double>(prob.row(i)[e]);
    total += static_cast<double>(count.data[e]) / n * (p / n);
  }
  return static_cast<double>(prob.cols) * total;
}

template <class R>
double moe_z(View<const R> lse) {
  double total = 0;
  for (std::int64_t i = 0; i < lse.rows; ++i) total += std::pow(static_cast<double>(*lse.row(i)), 2);
  return total / static_cast<double>(lse.rows);
}

// With w = softmax over the chosen logits: dx_c = w_c (dw_c - Σ w dw). With p = softmax over all: dx_e = p_e
// (dp_e - Σ p dp), dp_e = dbalance E count_e / n². The z-loss: dx_e = dz 2 lse p_e / n.
template <class R>
void moe_route_backward(View<const R> prob, View<const R> lse, View<const R> index, View<const R> weight,
                        View<const R> count, View<const R> dweight, double dbalance, double dz,
                        Sink<R> dlogits) {
  if (!dlogits) return;
  const auto n = static_cast<double>(prob.rows);
  const double balance = dbalance * static_cast<double>(prob.cols) / (n * n);
  for (std::int64_t i = 0; i < prob.rows; ++i) {
    const R *p = prob.row(i), *w = weight.row(i), *dw = dweight.row(i);
    double mean_dp = 0, mean_dw = 0;
    for (std::int64_t e = 0; e < prob.cols; ++e)
      mean_dp += static_cast<double>(p[e]) * balance * static_cast<double>(count.data[e]);
    for (std::int64_t c = 0; c < index.cols; ++c)
      mean_dw += static_cast<double>(w[c]) * static_cast<double>(dw[c]);
    const double z = dz * 2 * static_cast<double>(*lse.row(i)) / n;
    for (std::int64_t e = 0; e < prob.cols; ++e) {
      double d = static_cast<double>(p[e]) * (balance * static_cast<double>(count.data[e]) - mean_dp + z);
      for (std::int64_t c = 0; c < index.cols; ++c)
        if (static_cast<std::int64_t>(index.row(i)[c]) == e)
          d += static_cast<double>(w[c]) * (static_cast<double>(dw[c]) - mean_dw);
      R& to = dlogits.v.row(i)[e];
      to = static_cast<R>(dlogits.overwrite ? d : static_cast<double>(to) + d);
    }
  }
}

#define PLUMB_INSTANTIATE(R)                                                                   \
  template void moe_route(View<const R>, View<R>, View<R>, View<R>, View<R>);                  \
  template double moe_balance(View<const R>, View<const R>, View<R>);                          \
  template double moe_z(View<const R>);                                                        \
  template void moe_route_backward(View<const R>, View<const R>, View<const R>, View<const R>, \
                                   View<const R>, View<const R>, double, double, Sink<R>);
PLUMB_INSTANTIATE(float)
PLUMB_INSTANTIATE(double)
#undef PLUMB_INSTANTIATE

}  // namespace plumb
