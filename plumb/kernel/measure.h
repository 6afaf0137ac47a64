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

/// Σ and number of KL(P_{t+1} ‖ P_t) in nats over adjacent rows of `logits` (T, V), P = softmax of a row: one
/// sequence, without its padding. A class with p = 0 contributes 0; p > 0 against 0 gives infinity.
template <class R>
Mean adjacent_kl(View<const R> logits);
namespace plain {  // the twin without SIMD, for tests
template <class R>
Mean adjacent_kl(View<const R> logits);
}

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
/// Largest cosine of two different rows; n² d work. `scratch`: at least n.
template <class R>
double key_cosine_max(View<const R> keys, std::span<double> scratch);

}  // namespace plumb
