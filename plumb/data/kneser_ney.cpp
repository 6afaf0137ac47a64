#include "plumb/data/kneser_ney.h"

#include <algorithm>
#include <utility>

#include "plumb/base/error.h"

namespace plumb {
namespace {

// Three tokens of 21 bits make a key; 2^21 is more than there are code points.
constexpr int token_bits = 21;

std::uint64_t packed(std::span<const std::int32_t> tokens) {
  std::uint64_t key = 0;
  for (const std::int32_t t : tokens) key = key << token_bits | static_cast<std::uint64_t>(t);
  return key;
}

std::vector<std::uint64_t> ngrams(std::span<const std::int32_t> tokens, std::size_t order) {
  std::vector<std::uint64_t> keys;
  if (tokens.size() >= order) keys.reserve(tokens.size() - order + 1);
  for (std::size_t i = 0; i + order <= tokens.size(); ++i) keys.push_back(packed(tokens.subspan(i, order)));
  return keys;
}

}  // namespace

KneserNey::Level KneserNey::level_of(std::vector<std::uint64_t> keys) {
  std::sort(keys.begin(), keys.end());
  Level level;
  level.up_to.push_back(0);
  std::int64_t once = 0, twice = 0;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < keys.size();) {
    const std::size_t begin = i;
    while (i < keys.size() && keys[i] == keys[begin]) ++i;
    once += i - begin == 1;
    twice += i - begin == 2;
    level.up_to.push_back(static_cast<std::int64_t>(i));
    keys[kept++] = keys[begin];
  }
  keys.resize(kept);
  level.keys = std::move(keys);
  if (once > 0 && twice > 0)
    level.discount = static_cast<double>(once) / static_cast<double>(once + 2 * twice);
  return level;
}

KneserNey::KneserNey(std::span<const std::int32_t> train, std::int64_t vocab_size, int order)
    : uniform_(1 / static_cast<double>(vocab_size)) {
  if ((order != 2 && order != 3) || vocab_size < 1 || vocab_size > std::int64_t{1} << token_bits)
    fail("[kneser_ney] order {} with {} tokens; the order is 2 or 3, the tokens 1 to {}", order, vocab_size,
         std::int64_t{1} << token_bits);
  if (std::any_of(train.begin(), train.end(), [&](std::int32_t t) { return t < 0 || t >= vocab_size; }))
    fail("[kneser_ney] a token is outside of 0 … {}; encode the text with the same tokenizer",
         vocab_size - 1);
  const auto n = static_cast<std::size_t>(order);
  levels_.resize(n);
  levels_[n - 1] = level_of(ngrams(train, n));
  // What was seen before an n-gram, each once: one (n+1)-gram type with its first token taken off. The lowest
  // order counts types of bigrams, of which the trigrams miss the text's first.
  for (std::size_t m = n - 1; m >= 1; --m) {
    std::vector<std::uint64_t> keys = m == n - 1 ? levels_[n - 1].keys : level_of(ngrams(train, m + 1)).keys;
    const std::uint64_t mask = (std::uint64_t{1} << (token_bits * static_cast<int>(m))) - 1;
    for (std::uint64_t& key : keys) key &= mask;
    levels_[m - 1] = level_of(std::move(keys));
  }
}

double KneserNey::probability(std::span<const std::int32_t> context, std::int32_t word) const {
  const std::size_t most = std::min(context.size(), levels_.size() - 1);
  double p = uniform_;
  for (std::size_t m = 0; m <= most; ++m) {
    const Level& level = levels_[m];
    const std::uint64_t history = packed(context.last(m)) << token_bits;
    const auto begin = std::lower_bound(level.keys.begin(), level.keys.end(), history);
    const auto end = std::lower_bound(begin, level.keys.end(), history + (std::uint64_t{1} << token_bits));
    if (begin == end) break;  // never seen: longer contexts were not either
    const auto sum = [&](auto from, auto to) {
      return static_cast<double>(level.up_to[static_cast<std::size_t>(to - level.keys.begin())] -
                                 level.up_to[static_cast<std::size_t>(from - level.keys.begin())]);
    };
    const auto found = std::lower_bound(begin, end, history | static_cast<std::uint64_t>(word));
    const bool seen = found != end && *found == (history | static_cast<std::uint64_t>(word));
    const double total = sum(begin, end), types = static_cast<double>(end - begin);
    const double count = seen ? sum(found, found + 1) : 0;
    p = std::max(count - level.discount, 0.0) / total + level.discount * types / total * p;
  }
  return p;
}

}  // namespace plumb
