// Kernels that work row by row: norms, embedding, softmax cross-entropy, sums. Instantiated for double
// (plain loops: the oracle) and float (SIMD); plumb::plain has the plain twin for both, for tests.
//
// Every backward writes dx as its Sink says (overwrite or add) and skips an empty one; parameter gradients
// likewise. Views may be strided. Non-finite inputs reach the outputs.
#pragma once
#include <cstddef>
#include <span>

#include "plumb/tensor/view.h"

namespace plumb {
/// What is minimised beside the cross-entropy: label smoothing's share epsilon of the target that is spread
/// evenly over the vocabulary (Szegedy et al. 2015, arXiv 1512.00567, section 7), and z_loss times the
/// squared log-sum-exp of the logits (Chowdhery et al. 2022, arXiv 2204.02311, section 5).
struct LossTerms {
  double label_smoothing = 0, z_loss = 0;
  bool any() const { return label_smoothing != 0 || z_loss != 0; }
};
}  // namespace plumb

#define PLUMB_ROW_KERNELS                                                                                    \
  /* LayerNorm over the last axis: biased variance, eps inside the root, two-pass (Ba et al. 2016, arXiv     \
     1607.06450). x, y (rows, n); gamma, beta (1, n) or empty; mean, rstd (rows, 1) are kept for backward.                    \
   */                                                                                                        \
  template <class R>                                                                                         \
  void layer_norm_forward(View<const R> x, View<const R> gamma, View<const R> beta, double eps, View<R> y,   \
                          View<R> mean, View<R> rstd);                                                       \
  /* dx = (g - mean g - xhat mean(g xhat)) rstd, g = dy gamma. */                                            \
  template <class R>                                                                                         \
  void layer_norm_backward(View<const R> dy, View<const R> x, View<const R> gamma, View<const R> mean,       \
                           View<const R> rstd, Sink<R> dx, Sink<R> dgamma, Sink<R> dbeta);                   \
  /* RMSNorm: y = x r gamma, r = 1/sqrt(mean x^2 + eps) (Zhang & Sennrich 2019, arXiv 1910.07467). */        \
  template <class R>                                                                                         \
  void rms_norm_forward(View<const R> x, View<const R> gamma, double eps, View<R> y, View<R> rstd);          \
  template <class R>                                                                                         \
  void rms_norm_backward(View<const R> dy, View<const R> x, View<const R> gamma, View<const R> rstd,         \
                         Sink<R> dx, Sink<R> dgamma);                                                        \
  /* y[i] = table[ids[i]]. Backward adds rows in order of i (ids may repeat); an overwriting sink is cleared \
   * first. */                                                                                               \
  template <class R>                                                                                         \
  void embedding_forward(std::span<const std::int32_t> ids, View<const R> table, View<R> y);                 \
  template <class R>                                                                                         \
  void embedding_backward(std::span<const std::int32_t> ids, View<const R> dy, Sink<R> dtable);              \
  /* Returns the sum over rows of logsumexp(logits[i]) - logits[i][target[i]] in nats (double; rows whose    \
     target is ignore_index count 0); lse (rows, 1) is kept. Stable for logits to 1e4. No probabilities are                \
     stored. */                                                                                              \
  template <class R>                                                                                         \
  double cross_entropy_forward(View<const R> logits, std::span<const std::int32_t> target,                   \
                               std::int64_t ignore_index, View<R> lse);                                      \
  /* What is minimised beside the cross-entropy, summed over the rows that count (double): label smoothing's \
     epsilon (z[target] - mean z), and z_loss lse^2; lse as cross_entropy_forward keeps it. */               \
  template <class R>                                                                                         \
  double loss_terms(View<const R> logits, std::span<const std::int32_t> target, std::int64_t ignore_index,   \
                    View<const R> lse, const LossTerms& terms);                                              \
  /* dlogits = (softmax (1 + 2 z_loss lse) - (1 - epsilon) onehot - epsilon / n) * scale, row by row from    \
     lse; 0 for ignored rows. */                                                                                            \
  template <class R>                                                                                         \
  void cross_entropy_backward(View<const R> logits, std::span<const std::int32_t> target,                    \
                              std::int64_t ignore_index, View<const R> lse, double scale, Sink<R> dlogits,   \
                              const LossTerms& terms = {});                                                  \
  /* y = a x + b z (z may be empty); y may alias x or z. */                                                  \
  template <class R>                                                                                         \
  void axpby(double a, View<const R> x, double b, View<const R> z, View<R> y);                               \
  /* Gradient plumbing: sink (+)= a * x. */                                                                  \
  template <class R>                                                                                         \
  void pass(double a, View<const R> x, Sink<R> y);                                                           \
  /* Column sums of x (rows, n) into out (1, n); order fixed, independent of vector width where it can be.   \
   */                                                                                                        \
  template <class R>                                                                                         \
  void column_sums(View<const R> x, Sink<R> out);                                                            \
  /* y = x + bias (1, n). */                                                                                 \
  template <class R>                                                                                         \
  void add_bias(View<const R> x, View<const R> bias, View<R> y);                                             \
  /* Σ x, Σ x^2, Σ x y over all elements, in double, fixed order. */                                      \
  template <class R>                                                                                         \
  double sum(View<const R> x);                                                                               \
  template <class R>                                                                                         \
  double sum_squares(View<const R> x);                                                                       \
  template <class R>                                                                                         \
  double dot(View<const R> x, View<const R> y);                                                              \
  /* Are all elements finite? */                                                                             \
  template <class R>                                                                                         \
  bool all_finite(View<const R> x);

namespace plumb {
PLUMB_ROW_KERNELS
namespace plain {
PLUMB_ROW_KERNELS
}
}  // namespace plumb
#undef PLUMB_ROW_KERNELS
