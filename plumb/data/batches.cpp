#include "plumb/data/batches.h"

#include <algorithm>
#include <cmath>

#include "plumb/base/error.h"
#include "plumb/data/tokenizer.h"

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

// Calls fill(i, row of x, row of y) for each row.
template <class Fill>
void fill_rows(std::span<std::int32_t> x, std::span<std::int32_t> y, std::int64_t block_size, Fill fill) {
  const auto width = static_cast<std::size_t>(block_size);
  for (std::int64_t i = 0; i < rows_of(x, y, block_size); ++i) {
    const std::size_t at = static_cast<std::size_t>(i) * width;
    fill(i, x.subspan(at, width), y.subspan(at, width));
  }
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

Lines::Lines(std::span<const std::int32_t> tokens, std::int64_t block_size, std::int32_t newline,
             std::int64_t ignore_index)
    : tokens_(tokens),
      block_size_(block_size),
      newline_(newline),
      ignore_index_(static_cast<std::int32_t>(ignore_index)) {
  if (block_size < 1) bad_input("model.block_size is {}; set it to 1 or more", block_size);
  if (newline == CharTokenizer::unknown_id)
    bad_input(
        "rows = \"padded\" takes one line a row, but the newline is not in the vocabulary; use a text with "
        "more "
        "than one line or a larger data.vocab_size");
  for (std::int64_t begin = 0; begin < length(tokens);) {
    const auto end = std::find(tokens.begin() + begin, tokens.end(), newline) - tokens.begin();
    if (end > begin) {
      const std::int64_t whole =
          std::min(end + 1, length(tokens)) - begin;  // with its newline, if it has one
      begins_.push_back(begin);
      lengths_.push_back(std::min(whole, block_size));
      targets_ += lengths_.back();
      cut_ += end - begin > block_size;
      longest_ = std::max(longest_, whole);
    }
    begin = end + 1;
  }
  if (begins_.empty())
    bad_input(
        "rows = \"padded\" takes one line a row, but a split of {} tokens has none that is not empty; use a "
        "longer "
        "corpus or another data.split",
        tokens.size());
}

std::span<const std::int32_t> Lines::targets_of(std::int64_t row) const {
  if (row < 0 || row >= size()) return {};
  const auto i = static_cast<std::size_t>(row);
  return tokens_.subspan(static_cast<std::size_t>(begins_[i]), static_cast<std::size_t>(lengths_[i]));
}

void Lines::fill(std::int64_t row, std::span<std::int32_t> x, std::span<std::int32_t> y) const {
  const auto targets = targets_of(row);
  std::fill(x.begin(), x.end(), 0);
  std::fill(y.begin(), y.end(), ignore_index_);
  if (targets.empty()) return;
  x[0] = newline_;
  std::copy(targets.begin(), targets.end() - 1, x.begin() + 1);
  std::copy(targets.begin(), targets.end(), y.begin());
}

PaddedRows::PaddedRows(std::span<const std::int32_t> tokens, std::int64_t block_size, std::int32_t newline,
                       std::uint64_t seed, std::int64_t ignore_index)
    : lines_(tokens, block_size, newline, ignore_index), stream_(stream(seed, "data")) {}

std::int64_t PaddedRows::line(std::int64_t step, std::int64_t sample) const {
  return static_cast<std::int64_t>(stream_.below(static_cast<std::uint64_t>(lines_.size()),
                                                 static_cast<std::uint64_t>(step),
                                                 static_cast<std::uint64_t>(sample), 0));
}

void PaddedRows::fill(std::int64_t step, std::int64_t first_sample, std::span<std::int32_t> x,
                      std::span<std::int32_t> y) const {
  fill_rows(x, y, lines_.block_size(), [&](std::int64_t i, auto row_x, auto row_y) {
    lines_.fill(line(step, first_sample + i), row_x, row_y);
  });
}

void PaddedBlocks::fill(std::int64_t first_row, std::span<std::int32_t> x, std::span<std::int32_t> y) const {
  fill_rows(x, y, lines_.block_size(),
            [&](std::int64_t i, auto row_x, auto row_y) { lines_.fill(first_row + i, row_x, row_y); });
}

}  // namespace plumb
