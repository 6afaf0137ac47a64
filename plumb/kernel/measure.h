// Measurements: what probes and the doctor's numbers are made of. All sums are in double and in a fixed
// order, whatever the type of the input. Partial results of shards are merged in shard order. Nothing here
// allocates. NaN anywhere in an input makes its result NaN.
#pragma once
#include <cstdint>
#include <span>

#include "plumb/tensor/view.h"

namespace plumb {

/// A mean that is still being summed. Without an element its value is NaN.
struct Mean {
  double sum = 0;
  std::int64_t count = 0;
  void add(double x) { sum += x, ++count; }
  void merge(const Mean& o) { sum += o.sum, count += o.count; }
  double value() const;
};

/// Count, mean and squared deviations of elements; merged as Chan, Golub & LeVeque (1979) do.
struct Moments {
  std::int64_t count = 0;
  double mean = 0, squares = 0;  // squares: Σ (x - mean)²
  void merge(const Moments& o);
  double variance() const;  // of the population: divided by count. NaN without an element.
  double std() const;
};

/// Over all elements of x, two-pass. `moments(x).std()` is the activation std.
template <class R>
Moments moments(View<const R> x);

/// What one pass tells of elements: powers of their deviations from the mean, mean square, largest absolute
/// value. Merged as Pébay (2008, Sandia report SAND2008-6212, section 2) does.
struct Summary {
  std::int64_t count = 0;
  double mean = 0, m2 = 0, m3 = 0, m4 = 0;  // Σ (x - mean)^p
  double squares = 0;                       // Σ x²
  double largest = 0;                       // of |x|
  void merge(const Summary&);
  double rms() const;
  /// m4 / count over the variance's square: 3 of a normal distribution, NaN of a constant.
  double kurtosis() const;
};

/// Over all elements of x, which is read once.
template <class R>
Summary summary(View<const R> x);

/// Σ (a - b)² for views of one shape.
template <class R>
double squared_distance(View<const R> a, View<const R> b);

/// What `raise_tops` saw: elements above 0, and whether one was NaN.
struct Tops {
  std::int64_t above = 0;
  bool nan = false;
};
/// Raises top[j] to the largest element of column j, or with `absolute` to the largest |x|. `top`: at least
/// cols. What it becomes where the column has a NaN is not said.
Tops raise_tops(View<const float> x, bool absolute, std::span<float> top);

/// Entropies in nats and log-sum-exps of rows of logits.
struct Predictions {
  Mean entropy, log_z;
  void merge(const Predictions& o) { entropy.merge(o.entropy), log_z.merge(o.log_z); }
};

/// Of every row of `logits` (rows, V). A class with p = 0 contributes 0 to the entropy.
template <class R>
Predictions predictions(View<const R> logits);

/// Σ and number of KL(P_{t+1} ‖ P_t) in nats over adjacent rows of `logits` (T, V), P = softmax of a row: one
/// sequence, without its padding. A class with p = 0 contributes 0; p > 0 against 0 gives infinity.
template <class R>
Mean adjacent_kl(View<const R> logits);
namespace plain {  // the twins without SIMD, for tests
template <class R>
Mean adjacent_kl(View<const R> logits);
template <class R>
Predictions predictions(View<const R> logits);
}  // namespace plain

/// Entropy in nats of a row of attention with `visible` keys, over its largest possible, ln(visible). Needs
/// two or more.
double normalised_entropy(double entropy, std::int64_t visible);

/// Σ and number of normalised entropies of `entropy` (n_seq·block, H), as causal attention gives them: the
/// row at position t sees t + 1 keys, at most `window` unless that is 0; rows that see one are left out. One
/// head: pass its column.
template <class R>
Mean normalised_entropy(View<const R> entropy, std::int64_t block, std::int64_t window = 0);

/// Mean cosine of two different rows of `keys` (n, d): (‖Σ k̂‖² - Σ ‖k̂‖²) / (n(n-1)). A zero row has cosine 0
/// with every other. NaN for fewer than two rows. `scratch`: at least d.
template <class R>
double key_cosine_mean(View<const R> keys, std::span<double> scratch);
/// Cosines of pairs of different rows.
struct KeyPairs {
  double largest = -1;                // NaN when one is
  std::int64_t count = 0, above = 0;  // pairs, and those whose cosine is above `near`
  void merge(const KeyPairs&);
};
/// n² d work. `scratch`: at least n.
template <class R>
KeyPairs key_pairs(View<const R> keys, double near, std::span<double> scratch);
/// Largest cosine of two different rows, NaN for fewer than two rows; n² d work. `scratch`: at least n.
template <class R>
double key_cosine_max(View<const R> keys, std::span<double> scratch);

}  // namespace plumb
