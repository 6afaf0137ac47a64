#include "plumb/data/batches.h"

#include <algorithm>
#include <cmath>

#include "plumb/base/error.h"

namespace plumb {
namespace {

std::int64_t length(std::span<const std::int32_t> tokens) { return static_cast<std::int64_t>(tokens.size()); }

void require_block(std::span<const std::int32_t> tokens, std::int64_t block_size) {
  if (block_size < 1) bad_input("model.block_size is {}; set it to 1 or more", block_size);
  if (length(tokens) < block_size + 1)
    bad_input(
        "the training split has {} tokens, but a block of {} needs {}; use a longer corpus, a larger "
        "data.split or a smaller "
        "model.block_size",
        tokens.size(), block_size, block_size + 1);
}

void require_target(std::span<const std::int32_t> tokens) {
  if (tokens.size() < 2)
    bad_input(
        "the validation split has {} tokens, but a target needs 2; use a longer corpus or a smaller "
        "data.split",
        tokens.size());
}

// x and y have the same whole number of rows; a caller's mistake otherwise.
std::int64_t rows_of(std::span<const std::int32_t> x, std::span<const std::int32_t> y,
                     std::int64_t block_size) {
  if (x.size() != y.size() || length(x) % block_size != 0)
    fail("[batch] x has {} tokens and y {}; give both a whole number of rows of {}", x.size(), y.size(),
         block_size);
  return length(x) / block_size;
}

}  // namespace

Split split_tokens(std::span<const std::int32_t> tokens, double fraction, std::int64_t block_size) {
  const auto cut = static_cast<std::size_t>(std::floor(fraction * static_cast<double>(tokens.size())));
  const Split split{tokens.first(std::min(cut, tokens.size())), tokens.subspan(std::min(cut, tokens.size()))};
  require_block(split.train, block_size);
  require_target(split.validation);
  return split;
}

Windows::Windows(std::span<const std::int32_t> tokens, std::int64_t block_size, std::uint64_t seed)
    : tokens_(tokens), block_size_(block_size), stream_(stream(seed, "data")) {
  require_block(tokens, block_size);
}

std::int64_t Windows::offset(std::int64_t step, std::int64_t sample) const {
  const auto starts = static_cast<std::uint64_t>(length(tokens_) - block_size_);
  return static_cast<std::int64_t>(
      stream_.below(starts, static_cast<std::uint64_t>(step), static_cast<std::uint64_t>(sample), 0));
}

void Windows::fill(std::int64_t step, std::int64_t first_sample, std::span<std::int32_t> x,
                   std::span<std::int32_t> y) const {
  const std::int64_t rows = rows_of(x, y, block_size_);
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto window = tokens_.subspan(static_cast<std::size_t>(offset(step, first_sample + row)),
                                        static_cast<std::size_t>(block_size_) + 1);
    std::copy(window.begin(), window.end() - 1, x.begin() + row * block_size_);
    std::copy(window.begin() + 1, window.end(), y.begin() + row * block_size_);
  }
}

Blocks::Blocks(std::span<const std::int32_t> tokens, std::int64_t block_size, std::int64_t ignore_index)
    : tokens_(tokens), block_size_(block_size), ignore_index_(static_cast<std::int32_t>(ignore_index)) {
  if (block_size < 1) bad_input("model.block_size is {}; set it to 1 or more", block_size);
  require_target(tokens);
}

std::int64_t Blocks::size() const { return (targets() + block_size_ - 1) / block_size_; }

void Blocks::fill(std::int64_t first_block, std::span<std::int32_t> x, std::span<std::int32_t> y) const {
  rows_of(x, y, block_size_);
  std::fill(x.begin(), x.end(), 0);
  std::fill(y.begin(), y.end(), ignore_index_);
  const std::int64_t begin = std::min(first_block * block_size_, targets());
  const std::int64_t n = std::min(length(x), targets() - begin);
  const auto part = tokens_.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(n) + 1);
  std::copy(part.begin(), part.end() - 1, x.begin());
  std::copy(part.begin() + 1, part.end(), y.begin());
}

}  // namespace plumb
