// From a row of tokens to batches: random windows for training, all of the validation split in order.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

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

/// A text cut into its lines, one a row of block_size: the inputs are a newline and the line's characters,
/// the targets the characters and the newline that ends them; what is left of the row is input 0 and target
/// ignore_index.
class Lines {
 public:
  /// Borrows `tokens`. Empty lines are left out. A line cut off by the end of `tokens` has no newline to
  /// predict. bad_input when there is no line, or when the newline has no id of its own (`newline` is the
  /// unknown's).
  Lines(std::span<const std::int32_t> tokens, std::int64_t block_size, std::int32_t newline,
        std::int64_t ignore_index);

  std::int64_t size() const { return static_cast<std::int64_t>(begins_.size()); }
  /// Targets that count, over all rows.
  std::int64_t targets() const { return targets_; }
  /// Lines of more than block_size characters: what follows is no target. (A line of exactly block_size
  /// characters only loses its newline as a target.)
  std::int64_t cut() const { return cut_; }
  /// Targets of the longest line, were nothing cut.
  std::int64_t longest() const { return longest_; }

  std::int64_t block_size() const { return block_size_; }

  /// x, y: [block_size], all padding for a row past the last.
  void fill(std::int64_t row, std::span<std::int32_t> x, std::span<std::int32_t> y) const;

 private:
  std::span<const std::int32_t> targets_of(std::int64_t row) const;
  std::span<const std::int32_t> tokens_;
  std::int64_t block_size_;
  std::int32_t newline_, ignore_index_;
  std::vector<std::int64_t> begins_, lengths_;  // of each row's targets in tokens_
  std::int64_t targets_ = 0, cut_ = 0, longest_ = 0;
};

/// Training rows of one line each. Which line a sample gets depends on (seed, step, global sample) only.
class PaddedRows {
 public:
  /// As Lines.
  PaddedRows(std::span<const std::int32_t> tokens, std::int64_t block_size, std::int32_t newline,
             std::uint64_t seed, std::int64_t ignore_index = -100);

  /// The line that a sample gets: uniform over 0 … lines().size() - 1.
  std::int64_t line(std::int64_t step, std::int64_t sample) const;
  /// x, y: [n, block_size], samples first_sample … first_sample + n - 1.
  void fill(std::int64_t step, std::int64_t first_sample, std::span<std::int32_t> x,
            std::span<std::int32_t> y) const;
  const Lines& lines() const { return lines_; }

 private:
  Lines lines_;
  Stream stream_;
};

/// The validation split's lines in order, each once.
class PaddedBlocks {
 public:
  /// As Lines.
  PaddedBlocks(std::span<const std::int32_t> tokens, std::int64_t block_size, std::int32_t newline,
               std::int64_t ignore_index = -100)
      : lines_(tokens, block_size, newline, ignore_index) {}

  /// Number of rows.
  std::int64_t size() const { return lines_.size(); }
  /// Number of targets that count.
  std::int64_t targets() const { return lines_.targets(); }
  /// x, y: [n, block_size]: rows first_row … first_row + n - 1; a row past the last is all padding.
  void fill(std::int64_t first_row, std::span<std::int32_t> x, std::span<std::int32_t> y) const;
  const Lines& lines() const { return lines_; }

 private:
  Lines lines_;
};

}  // namespace plumb
