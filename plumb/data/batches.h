// From a row of tokens to batches: random windows for training, all of the validation split in order.
#pragma once
#include <cstdint>
#include <span>

#include "plumb/base/rng.h"

namespace plumb {

struct Split {
  std::span<const std::int32_t> train, validation;
};

/// The first `fraction` of the tokens (rounded down) and the rest, contiguous. bad_input when a part has
/// fewer than block_size + 1 tokens for training or 2 for validation.
Split split_tokens(std::span<const std::int32_t> tokens, double fraction, std::int64_t block_size);

/// Training windows. Which window a sample gets depends on (seed, step, global sample) only.
class Windows {
 public:
  /// Borrows `tokens`. bad_input when there are fewer than block_size + 1.
  Windows(std::span<const std::int32_t> tokens, std::int64_t block_size, std::uint64_t seed);

  /// Where the window of a sample starts: uniform over 0 … tokens - block_size - 1.
  std::int64_t offset(std::int64_t step, std::int64_t sample) const;

  /// x, y: [n, block_size] with n = x.size() / block_size, samples first_sample … first_sample + n - 1; y is
  /// x one later.
  void fill(std::int64_t step, std::int64_t first_sample, std::span<std::int32_t> x,
            std::span<std::int32_t> y) const;

 private:
  std::span<const std::int32_t> tokens_;
  std::int64_t block_size_;
  Stream stream_;
};

/// The validation split as non-overlapping blocks: every token but the first is a target exactly once. The
/// last block is padded with input 0 and target ignore_index.
class Blocks {
 public:
  /// Borrows `tokens`. bad_input when there are fewer than 2.
  Blocks(std::span<const std::int32_t> tokens, std::int64_t block_size, std::int64_t ignore_index = -100);

  /// Number of blocks, ceil((tokens - 1) / block_size).
  std::int64_t size() const;
  /// Number of targets that count, tokens - 1.
  std::int64_t targets() const { return static_cast<std::int64_t>(tokens_.size()) - 1; }

  /// x, y: [n, block_size]: blocks first_block … first_block + n - 1; a block past the last is all padding.
  void fill(std::int64_t first_block, std::span<std::int32_t> x, std::span<std::int32_t> y) const;

 private:
  std::span<const std::int32_t> tokens_;
  std::int64_t block_size_;
  std::int32_t ignore_index_;
};

}  // namespace plumb
