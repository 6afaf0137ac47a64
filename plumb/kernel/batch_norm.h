// Batch normalisation, column by column: a channel's statistics run over all rows. Ioffe & Szegedy 2015,
// arXiv 1502.03167. Rows may be strided, so a slice of columns is a piece of work of its own. All sums are in
// double, rows in order.
#pragma once
#include "plumb/tensor/view.h"

namespace plumb {

/// Per column of x (m, n): mean and 1/sqrt(var + eps) with the biased variance, two-pass. `unbiased` (1, n),
/// which may be empty, gets Σ (x - mean)² / (m - 1): what running statistics are made of.
template <class R>
void batch_norm_statistics(View<const R> x, double eps, View<R> mean, View<R> rstd, View<R> unbiased);

/// y = (x - mean) rstd gamma + beta; gamma, beta (1, n) or empty.
template <class R>
void batch_norm_forward(View<const R> x, View<const R> mean, View<const R> rstd, View<const R> gamma,
                        View<const R> beta, View<R> y);

/// With mean and rstd of x itself (`of_batch`): dx = gamma rstd (dy - mean dy - xhat mean(dy xhat)).
/// With running ones: dx = gamma rstd dy. dgamma = Σ dy xhat, dbeta = Σ dy in both. Each sink may be empty.
template <class R>
void batch_norm_backward(View<const R> dy, View<const R> x, View<const R> mean, View<const R> rstd,
                         View<const R> gamma, bool of_batch, Sink<R> dx, Sink<R> dgamma, Sink<R> dbeta);

/// running ← (1 - rho) running + rho new, and one more batch counted. momentum = 0: rho = 1/k, k the batches
/// counted with this one (a cumulative average).
template <class R>
void batch_norm_merge(double momentum, View<const R> mean, View<const R> unbiased, View<R> running_mean,
                      View<R> running_var, View<R> count);

}  // namespace plumb
