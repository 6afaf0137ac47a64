// What is trained on and what is validated on.
#include <algorithm>
#include <unordered_set>

#include "plumb/study/audit.h"

namespace plumb {
namespace {

constexpr std::int64_t gram = 16;  // as many tokens in a row are not met twice by chance
constexpr std::int64_t most_shift = 8;

// Which later token of its own row is the target? The offset of which most targets are; the last target of a short row has no
// input of its own, and pairs of a long way are few and alike by chance.
void audit_targets(const Patient& p, FactSheet& facts) {
  const std::int64_t t = p.block();
  std::int64_t most = 0, offset = 0;
  for (std::int64_t by = -most_shift; by <= most_shift; ++by) {
    std::int64_t n = 0, same = 0;
    for (std::int64_t i = 0; i < p.rows(); ++i) {
      const std::int64_t from = i % t + by;
      const std::int32_t y = p.y[static_cast<std::size_t>(i)];
      if (from < 0 || from >= t || y == p.spec.ignore_index) continue;
      ++n, same += y == p.x[static_cast<std::size_t>(i + by)];
    }
    if (same > most && 10 * same >= 8 * n) most = same, offset = by;
  }
  if (most > 0) facts.add("target_offset", offset);
}

void audit_validation(const Patient& p, FactSheet& facts) {
  const std::int64_t t = p.block();
  // Of few symbols (one in e^30 is wanted) a piece comes again by chance.
  const bool by_chance = p.feed.baselines().unigram * static_cast<double>(gram) < 30;
  if (t < gram || p.feed.val_rows() < 1 || by_chance) return;
  std::unordered_set<std::uint64_t> seen;
  std::vector<std::int32_t> x(static_cast<std::size_t>(32 * t)), y(x.size());
  const auto each = [&](auto f) {
    for (std::int64_t i = 0; i + gram <= static_cast<std::int64_t>(x.size()); ++i) {
      const auto of_y = std::span(y).subspan(static_cast<std::size_t>(i), static_cast<std::size_t>(gram));
      const bool padded = std::ranges::count(of_y, static_cast<std::int32_t>(p.spec.ignore_index)) > 1;
      if (i % t + gram > t || padded) continue;
      std::uint64_t hash = 14695981039346656037U;  // FNV-1a, over tokens
      for (std::int64_t k = i; k < i + gram; ++k)
        hash = (hash ^ static_cast<std::uint64_t>(x[static_cast<std::size_t>(k)])) * 1099511628211U;
      f(hash);
    }
  };
  // Windows lie anywhere: three times as many as hold the text once, or what takes a second.
  const std::int64_t windows =
      std::clamp<std::int64_t>(3 * p.feed.train_tokens() / (32 * (t - gram + 1)), 24, 25'600 / t);
  for (std::int64_t step = 0; step < windows; ++step) {
    p.feed.fill(step, 0, x, y);
    each([&](std::uint64_t g) { seen.insert(g); });
  }
  // Of a long text only a part was seen: the same share is asked of other windows of it.
  std::int64_t fresh = 0, fresh_seen = 0, val = 0, val_seen = 0;
  for (std::int64_t step = windows + 1000; step < windows + 1032; ++step) {
    p.feed.fill(step, 0, x, y);
    each([&](std::uint64_t g) { ++fresh, fresh_seen += seen.contains(g); });
  }
  const std::int64_t rows = std::min<std::int64_t>(256, p.feed.val_rows());
  x.resize(static_cast<std::size_t>(rows * t)), y.resize(x.size());
  p.feed.fill_validation(0, x, y);
  each([&](std::uint64_t g) { ++val, val_seen += seen.contains(g); });
  if (val == 0 || fresh_seen == 0) return;
  facts.add("validation_seen", static_cast<double>(val_seen) / static_cast<double>(val) /
                                   (static_cast<double>(fresh_seen) / static_cast<double>(fresh)));
}

// The same seed: the same samples, and the same bits of the gradient?
void audit_repeats(Patient& p, FactSheet& facts) {
  const Feed again(p.config.data, p.corpus, p.spec.block_size, static_cast<std::int32_t>(p.spec.ignore_index),
                   static_cast<std::uint64_t>(p.sick.train.seed), std::nullopt, p.faults);
  std::vector<std::int32_t> x(p.x.size()), y(p.y.size());
  again.fill(0, 0, x, y);
  facts.add("order_repeats", x == p.x);
  p.pass_back();
  const std::vector<float> once(p.grads().begin(), p.grads().end());
  p.pass_back();
  facts.add("gradient_repeats", std::ranges::equal(once, p.grads()));
}

}  // namespace

void audit_data(Patient& p, FactSheet& facts) {
  audit_targets(p, facts);
  audit_validation(p, facts);
  audit_repeats(p, facts);
  facts.add("train_tokens", p.feed.train_tokens());
  facts.add("val_tokens", p.feed.val_tokens());
}

}  // namespace plumb
