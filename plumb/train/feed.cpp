#include "plumb/train/feed.h"

#include <fmt/core.h>

#include <algorithm>
#include <random>

#include "plumb/base/error.h"

namespace plumb {

Feed::Feed(const DataConfig& d, const Corpus& corpus, std::int64_t block_size, std::int32_t ignore_index,
           std::uint64_t seed, std::optional<CharTokenizer> tokenizer, const RunFaults& faults)
    : corpus_(&corpus),
      block_size_(block_size),
      target_shift_(faults.target_shift),
      ignore_index_(ignore_index),
      tokenizer_(tokenizer ? std::move(*tokenizer) : CharTokenizer(corpus.text, d.vocab_size)),
      tokens_(tokenizer_.encode(corpus.text)),
      split_(split_tokens(tokens_, d.split, block_size)),
      baselines_(plumb::baselines(split_.train, split_.validation, tokenizer_.vocab_size())) {
  const std::size_t n_train = split_.train.size();
  if (faults.train_share < 1)
    split_.train = split_.train.first(std::min(
        n_train, std::max(static_cast<std::size_t>(faults.train_share * static_cast<double>(n_train)),
                          2 * static_cast<std::size_t>(block_size) + 1)));
  if (faults.validate_on_training)
    split_.validation = split_.train.first(std::min(split_.train.size(), split_.validation.size()));
  if (faults.random_order) seed ^= std::random_device{}();
  if (d.rows == "padded") {
    const std::int32_t newline = tokenizer_.encode(U"\n").front();
    rows_.emplace(split_.train, block_size, newline, seed, ignore_index);
    row_blocks_.emplace(split_.validation, block_size, newline, ignore_index);
    if (const std::int64_t cut = rows_->lines().cut() + row_blocks_->lines().cut(); cut > 0)
      remarks_.push_back(
          fmt::format("{} lines are longer than block_size = {} and are cut there", cut, block_size));
  } else {
    windows_.emplace(split_.train, block_size, seed);
    blocks_.emplace(split_.validation, block_size, ignore_index);
    // The floor is that of the blocks, and only where no symbol became the unknown.
    if (corpus.floor && !faults.validate_on_training && tokenizer_.coverage(corpus.text) == 1)
      floor_ = corpus.floor(std::u32string_view(corpus.text).substr(n_train), block_size);
  }
  val_targets_ = row_blocks_ ? row_blocks_->targets() : blocks_->targets();
  if (target_shift_ != 0) {
    val_targets_ = 0;
    std::vector<std::int32_t> x(static_cast<std::size_t>(block_size)), y(x.size());
    for (std::int64_t row = 0; row < val_rows(); ++row) {
      fill_validation(row, x, y);
      val_targets_ += std::ranges::count_if(y, [&](std::int32_t t) { return t != ignore_index; });
    }
    if (val_targets_ == 0)
      bad_input(
          "fault.inject: with targets shifted by {} no row of the validation split has one left; lower "
          "fault.strength",
          target_shift_);
  }
  if (tokenizer_.vocab_size() < d.vocab_size)
    remarks_.push_back(
        fmt::format("the corpus has {} symbols (one is for the unknown), fewer than vocab_size = {}",
                    tokenizer_.vocab_size(), d.vocab_size));
}

void Feed::fill(std::int64_t step, std::int64_t first_sample, std::span<std::int32_t> x,
                std::span<std::int32_t> y) const {
  rows_ ? rows_->fill(step, first_sample, x, y) : windows_->fill(step, first_sample, x, y);
  shift(x, y);
}

void Feed::shift(std::span<const std::int32_t> x, std::span<std::int32_t> y) const {
  if (target_shift_ == 0) return;
  const std::vector<std::int32_t> next(y.begin(), y.end());
  for (std::size_t i = 0; i < y.size(); ++i) {
    const std::int64_t t = static_cast<std::int64_t>(i) % block_size_, from = t + target_shift_;
    const auto row = i - static_cast<std::size_t>(t);
    const bool here = from >= -1 && from < block_size_ && next[i] != ignore_index_;
    y[i] = !here ? ignore_index_ : from < 0 ? x[row] : next[row + static_cast<std::size_t>(from)];
  }
}

std::int64_t Feed::longest_val_row() const {
  return row_blocks_ ? row_blocks_->lines().longest() : blocks_->targets();
}
std::int64_t Feed::val_rows() const { return row_blocks_ ? row_blocks_->size() : blocks_->size(); }
std::int64_t Feed::val_targets() const { return val_targets_; }
void Feed::fill_validation(std::int64_t first_row, std::span<std::int32_t> x,
                           std::span<std::int32_t> y) const {
  row_blocks_ ? row_blocks_->fill(first_row, x, y) : blocks_->fill(first_row, x, y);
  shift(x, y);
}

}  // namespace plumb
