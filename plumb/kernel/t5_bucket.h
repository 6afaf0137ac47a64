// Buckets of relative position. Raffel et al. 2020 (T5), arXiv 1910.10683, section 2.1; the authors' code, 32
// buckets to distance 128: the near half exact, the far half logarithmic. The starts of the logarithmic
// buckets are listed, so that no rounding of a logarithm decides.
#pragma once
#include <array>
#include <cstdint>

namespace plumb {

inline constexpr int t5_buckets = 32;

/// Causal: n = max(query - key, 0); n below 16, else min(16 + ⌊ln(n/16)/ln 8 · 16⌋, 31).
constexpr int t5_bucket(std::int64_t query_minus_key) {
  constexpr std::array<std::int64_t, 15> starts{19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113};
  const std::int64_t n = query_minus_key < 0 ? 0 : query_minus_key;
  if (n < 16) return static_cast<int>(n);
  int bucket = 16;
  for (const std::int64_t start : starts) bucket += n >= start ? 1 : 0;
  return bucket;
}

/// Bidirectional: 16 buckets a side, keys behind the query (key > query) from 16 on; on each side distances
/// below 8 exact, else min(8 + ⌊ln(n/8)/ln 16 · 8⌋, 15).
constexpr int t5_bucket_bidirectional(std::int64_t key_minus_query) {
  constexpr std::array<std::int64_t, 7> starts{12, 16, 23, 32, 46, 64, 91};
  const std::int64_t n = key_minus_query < 0 ? -key_minus_query : key_minus_query;
  const int side = key_minus_query > 0 ? t5_buckets / 2 : 0;
  if (n < 8) return side + static_cast<int>(n);
  int bucket = 8;
  for (const std::int64_t start : starts) bucket += n >= start ? 1 : 0;
  return side + bucket;
}

}  // namespace plumb
