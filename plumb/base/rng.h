// Counter-based random numbers: Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as
// easy as 1, 2, 3", SC 2011). A number is a pure function of (seed, stream name, step, global sample,
// element): never of call order, thread or micro-batch, so the same run gives the same bits however its work
// is cut.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace plumb {

using uint32x4 = std::array<std::uint32_t, 4>;

/// The Philox4x32 bijection with 10 rounds: `counter` (128 bits) encrypted under `key` (64 bits).
uint32x4 philox4x32(uint32x4 counter, std::array<std::uint32_t, 2> key) noexcept;

/// FNV-1a, 64 bits, of the bytes of `text`.
std::uint64_t fnv1a(std::string_view text) noexcept;

/// The quantile of the standard normal distribution at `p` in (0, 1): Wichura's algorithm AS 241 (PPND16,
/// 1988), relative error about 1e-15. Uses only +, -, *, / and sqrt, each rounded exactly, so that every C
/// library gives the same bits (compile with -ffp-contract=off). 0 gives -infinity, 1 gives +infinity,
/// anything else outside gives NaN.
double normal_quantile(double p) noexcept;

/// One named stream of a seed. Copy it freely: it is 8 bytes and has no state that moves.
struct Stream {
  std::array<std::uint32_t, 2> key{};

  /// Four random words. `step` and `sample` below 2^42, `block` below 2^44; larger values wrap around.
  uint32x4 at(std::uint64_t step, std::uint64_t sample, std::uint64_t block) const noexcept;

  /// Uniform in [0, 1) from 53 bits. Consecutive elements are independent.
  double uniform(std::uint64_t step, std::uint64_t sample, std::uint64_t element) const noexcept;

  /// Uniform in [0, 1) from 24 bits: every value is a float exactly.
  float uniform_float(std::uint64_t step, std::uint64_t sample, std::uint64_t element) const noexcept;

  /// Unbiased in [0, n) (Lemire 2019, with rejection); n = 0 gives 0.
  std::uint64_t below(std::uint64_t n, std::uint64_t step, std::uint64_t sample,
                      std::uint64_t element) const noexcept;

  /// Standard normal, one for each element.
  double normal(std::uint64_t step, std::uint64_t sample, std::uint64_t element) const noexcept;

  /// out[i] = mean + std * normal(step, sample, i). The float form is the double one rounded.
  void fill_normal(double mean, double std, std::span<double> out, std::uint64_t step = 0,
                   std::uint64_t sample = 0) const noexcept;
  void fill_normal(double mean, double std, std::span<float> out, std::uint64_t step = 0,
                   std::uint64_t sample = 0) const noexcept;

  /// out[i] = low + (high - low) * uniform(step, sample, i). The float form is the double one rounded.
  void fill_uniform(double low, double high, std::span<double> out, std::uint64_t step = 0,
                    std::uint64_t sample = 0) const noexcept;
  void fill_uniform(double low, double high, std::span<float> out, std::uint64_t step = 0,
                    std::uint64_t sample = 0) const noexcept;
};

/// The stream of `seed` called `name` ("data", "init.blocks.3.attn.q.weight" …). For one seed different names
/// give different keys (unless their FNV-1a hashes agree); for one name different seeds always do.
Stream stream(std::uint64_t seed, std::string_view name) noexcept;

}  // namespace plumb
