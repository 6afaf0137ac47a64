// From a corpus to what a run reads: tokens, the split, batches, and what a model without context would
// score.
#pragma once
#include <optional>

#include "plumb/config/config.h"
#include "plumb/data/baselines.h"
#include "plumb/data/batches.h"
#include "plumb/data/text_corpus.h"
#include "plumb/data/tokenizer.h"
#include "plumb/fault/fault.h"

namespace plumb {

class Feed {
 public:
  /// Tokenizes `corpus` (with `tokenizer` where one is given: that of a checkpoint) and splits it as [data]
  /// says. bad_input when a part is too short for `block_size`. `seed` keys the order of training samples.
  /// `faults`: what is wrong with the data on purpose; the baselines are those of the healthy split.
  Feed(const DataConfig&, const Corpus& corpus, std::int64_t block_size, std::int32_t ignore_index,
       std::uint64_t seed, std::optional<CharTokenizer> tokenizer = {}, const RunFaults& faults = {});

  Feed(const Feed&) = delete;  // its parts point into its tokens
  Feed& operator=(const Feed&) = delete;

  const CharTokenizer& tokenizer() const { return tokenizer_; }
  std::int64_t block_size() const { return block_size_; }
  const Corpus& corpus() const { return *corpus_; }
  std::int64_t train_tokens() const { return static_cast<std::int64_t>(split_.train.size()); }
  std::int64_t val_tokens() const { return static_cast<std::int64_t>(split_.validation.size()); }
  double coverage() const { return tokenizer_.coverage(corpus_->text); }
  const Baselines& baselines() const { return baselines_; }
  /// Exact mean -log p of the validation targets within their own windows; only for generated corpora whose
  /// every symbol has an id.
  std::optional<double> floor() const { return floor_; }
  /// What a person should know: fewer symbols than asked for, lines that were cut.
  const std::vector<std::string>& remarks() const { return remarks_; }

  /// x, y: [n, block_size]; depends on (seed, step, global sample) only.
  void fill(std::int64_t step, std::int64_t first_sample, std::span<std::int32_t> x,
            std::span<std::int32_t> y) const;

  /// The most targets that one row of any block_size could hold.
  std::int64_t longest_val_row() const;
  /// The validation split, row by row. A row past the last is all padding.
  std::int64_t val_rows() const;
  std::int64_t val_targets() const;
  void fill_validation(std::int64_t first_row, std::span<std::int32_t> x, std::span<std::int32_t> y) const;

 private:
  void shift(std::span<const std::int32_t> x, std::span<std::int32_t> y) const;

  const Corpus* corpus_;
  std::int64_t block_size_, target_shift_, val_targets_ = 0;
  std::int32_t ignore_index_;
  CharTokenizer tokenizer_;
  std::vector<std::int32_t> tokens_;
  Split split_;
  std::optional<Windows> windows_;
  std::optional<Blocks> blocks_;
  std::optional<PaddedRows> rows_;  // rows = "padded": these two instead of the two above
  std::optional<PaddedBlocks> row_blocks_;
  Baselines baselines_;
  std::optional<double> floor_;
  std::vector<std::string> remarks_;
};

}  // namespace plumb
