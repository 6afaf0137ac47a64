// Batch normalisation, column by column: a channel's statistics run over all rows. Ioffe & Szegedy 2015,
// arXiv 1502.03167. Rows may be strided, so a slice of columns is a piece of work of its own. All sums are in
// double, rows in order.
#pragma once
#include <cstdint>
#include <span>

#include "plumb/tensor/view.h"

namespace plumb {

/// Which rows the statistics run over: those whose target counts in the loss (not padding); all, when no
/// targets are given or fewer than two count.
struct CountedRows {
  std::span<const std::int32_t> targets = {};
  std::int64_t ignore_index = 0;

  /// The targets of these rows, or none.
  CountedRows(std::span<const std::int32_t> of_rows, std::int64_t ignored);
  CountedRows() = default;
  bool operator()(std::int64_t row) const {
    return targets.empty() || targets[static_cast<std::size_t>(row)] != ignore_index;
  }
  std::int64_t count(std::int64_t rows) const;
};

/// Per column of x (m, n): mean and 1/sqrt(var + eps) with the biased variance, two-pass. `unbiased` (1, n),
/// which may be empty, gets Σ (x - mean)² / (m - 1): what running statistics are made of. m: the counted
/// rows.
template <class R>
void batch_norm_statistics(View<const R> x, double eps, View<R> mean, View<R> rstd, View<R> unbiased,
                           const CountedRows& counted = {});

/// y = (x - mean) rstd gamma + beta; gamma, beta (1, n) or empty.
template <class R>
void batch_norm_forward(View<const R> x, View<const R> mean, View<const R> rstd, View<const R> gamma,
                        View<const R> beta, View<R> y);

/// With mean and rstd of x itself (`of_batch`): dx = gamma rstd (dy - mean dy - xhat mean(dy xhat)).
/// With running ones, and in rows that are not counted: dx = gamma rstd dy. The means are sums over all rows
/// by the number of the counted: a row that is not counted is normalised with them too. dgamma = Σ dy xhat,
/// dbeta = Σ dy in both. Each sink may be empty.
template <class R>
void batch_norm_backward(View<const R> dy, View<const R> x, View<const R> mean, View<const R> rstd,
                         View<const R> gamma, bool of_batch, Sink<R> dx, Sink<R> dgamma, Sink<R> dbeta,
                         const CountedRows& counted = {});

/// running ← (1 - rho) running + rho new, and one more batch counted. momentum = 0: rho = 1/k, k the batches
/// counted with this one (a cumulative average).
template <class R>
void batch_norm_merge(double momentum, View<const R> mean, View<const R> unbiased, View<R> running_mean,
                      View<R> running_var, View<R> count);

}  // namespace plumb
