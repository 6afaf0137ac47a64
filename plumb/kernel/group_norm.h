// GroupNorm of sequences: statistics over positions and the channels of a group. Wu & He 2018, arXiv
// 1803.08494, eqs. 1-3 and 7.
#pragma once
#include "plumb/tensor/view.h"

namespace plumb {

/// y = (x - mean) / sqrt(var + eps) gamma + beta; mean and biased variance over the T positions of one
/// sequence and the C / groups adjacent channels of one group, two passes, sums in double. x, y (sequences ·
/// T, C); gamma, beta (C) or empty; mean, rstd (sequences, groups) are kept for backward. `work`: 2 C doubles
/// of scratch.
template <class R>
void group_norm_forward(View<const R> x, std::int64_t sequences, std::int64_t groups, double eps,
                        View<const R> gamma, View<const R> beta, View<R> y, View<R> mean, View<R> rstd,
                        double* work);

/// dx = (g - mean g - xhat mean(g xhat)) rstd, g = dy gamma, means over the same values; dgamma and dbeta sum
/// over rows; each as its sink says, empty sinks are skipped.
template <class R>
void group_norm_backward(View<const R> dy, View<const R> x, std::int64_t sequences, std::int64_t groups,
                         View<const R> gamma, View<const R> mean, View<const R> rstd, Sink<R> dx,
                         Sink<R> dgamma, Sink<R> dbeta, double* work);

}  // namespace plumb
