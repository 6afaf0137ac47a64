// Routing of a mixture of experts: who goes where, with which weight, and the auxiliary losses. Shazeer et
// al. 2017, arXiv 1701.06538; balance: Fedus et al. 2021, arXiv 2101.03961, eq. 4; z-loss: Zoph et al. 2022,
// arXiv 2202.08906, eq. 5.
#pragma once
#include "plumb/tensor/view.h"

namespace plumb {

/// prob (n, E) = softmax(logits) over all experts; lse (n, 1) the log-sum-exp. index (n, k): the k likeliest
/// experts of a row, likeliest first, the lower index of equals; stored as R. weight (n, k): their
/// probabilities over the sum of them. A NaN in a row of logits makes its prob, lse and weights NaN; index
/// stays valid.
template <class R>
void moe_route(View<const R> logits, View<R> prob, View<R> lse, View<R> index, View<R> weight);

/// Balance: E Σ_i f_i P_i. f_i = count_i / n, count_i the (row, choice) pairs of `index` that chose i
/// (written to `count` (1, E)); P_i the mean of prob's column i. Evenly spread it is the number of columns of
/// `index`, its minimum.
template <class R>
double moe_balance(View<const R> prob, View<const R> index, View<R> count);

/// Router z-loss: mean(lse²).
template <class R>
double moe_z(View<const R> lse);

/// dlogits of Σ dweight·weight + dbalance · balance + dz · z; the counts are constants.
template <class R>
void moe_route_backward(View<const R> prob, View<const R> lse, View<const R> index, View<const R> weight,
                        View<const R> count, View<const R> dweight, double dbalance, double dz,
                        Sink<R> dlogits);

}  // namespace plumb
