// Which elements dropout drops, as factors: 0, or 1 / (1 - p) ("inverted", so that evaluation changes nothing).
// Srivastava et al. 2014, JMLR 15, 1929-1958, section 10.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

#include "plumb/base/rng.h"

namespace plumb {

/// One place of dropout in one call. An element's fate is a pure function of the stream, the step, the global
/// number of its sample and where in the sample it lies: the same in backward, in recomputation, in float and
/// double, however a batch is cut.
struct Dropout {
  Stream draws;
  double p = 0;  // in [0, 1): share that is dropped, exact to 2^-32
  std::int64_t step = 0, first_sample = 0;

  explicit operator bool() const { return p > 0; }
  /// A word below this is an element that is dropped.
  std::uint32_t threshold() const {
    return static_cast<std::uint32_t>(std::min(std::llround(p * 0x1p32), 0xffffffffLL));
  }
  /// What the others are multiplied by: one over their share.
  double kept() const { return 0x1p32 / (0x1p32 - threshold()); }
  /// Of (row, col) of a sample's tensor of `width` columns: rows start at whole blocks of random words.
  static std::int64_t element(std::int64_t row, std::int64_t width, std::int64_t col) {
    return row * ((width + 3) / 4 * 4) + col;
  }
};

/// out[i] = factor of element `first + i` of sample `first_sample + sample`; `first` a multiple of 4. 0 < p < 1.
template <class R>
void dropout_factors(const Dropout&, std::int64_t sample, std::int64_t first, std::span<R> out);

namespace plain {
template <class R>
void dropout_factors(const Dropout&, std::int64_t sample, std::int64_t first, std::span<R> out);
}  // namespace plain

}  // namespace plumb
