// What the weights of a checkpoint look like, matrix by matrix, read in pieces: memory does not grow with the
// checkpoint.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "plumb/interop/spectrum.h"
#include "plumb/interop/subject.h"

namespace plumb {

/// One matrix, or the part of a fused one that makes q, k or v.
struct MatrixStats {
  Part part = Part::unknown;
  std::int64_t layer = -1;
  std::string tensor;
  std::int64_t out = 0, in = 0;  // channels; n = out × in elements
  double mean = 0, std = 0, max_abs = 0;
  std::int64_t non_finite = 0;     // NaNs and infinities, left out of the rest
  std::optional<double> init_std;  // what it should have been drawn with, where that is known
  // The norm of each input channel's weights (a column of W, [out, in]) over the median of all.
  double largest_channel = 0;  // the largest of these
  std::vector<std::int64_t>
      outlier_channels;         // those above `outlier_ratio`, at most the 20 largest, ascending
  std::int64_t n_outliers = 0;  // all of them
  std::optional<TailFit> tail;
  std::string no_tail;  // why there is no fit, as a clause

  std::int64_t n() const { return out * in; }
  bool writes_to_stream() const { return part == Part::attn_out || part == Part::down; }
};

struct NormStats {
  Part part = Part::norm;
  std::int64_t layer = -1;
  std::string tensor;
  double mean = 0, min = 0, max = 0;  // of the gain as it is applied: 1 + w where the architecture stores w
  std::int64_t finite = 0, non_finite = 0;  // elements; NaNs and infinities are left out of the rest
};

struct WeightStats {
  std::vector<MatrixStats> matrices;  // outside of the layers first, then by layer
  std::vector<NormStats> norms;
  std::vector<std::string> notes;  // what was not measured and why, as sentences
};

/// Input channels whose weights have a norm of more than three times the median channel's. Outlier dimensions
/// have no one definition: Kovaleva et al. 2021 (arXiv:2105.06990) take LayerNorm weights three standard
/// deviations off, Dettmers et al. 2022 (arXiv:2208.07339) features of magnitude 6 in activations. Drawn
/// weights stay within 1 ± 5/√(2·out) of the median.
inline constexpr double outlier_ratio = 3;

struct WeightOptions {
  std::int64_t spectrum = 1024;  // matrices whose smaller side is at most this get their spectrum; 0: none
  /// Called before each group of tensors with how many of how many are done; false stops.
  std::function<bool(std::int64_t done, std::int64_t of)> progress = {};
};

/// Matrices of more than 2^23 elements get no spectrum either: a thread (there are four at most) takes 12
/// bytes an element and 16 times the smaller side squared, which is below 120 MB at the default spectrum and
/// below 240 MB at any. Error 130 when `progress` returned false.
WeightStats measure_weights(const Subject& s, const WeightOptions& options);

}  // namespace plumb
