#include "plumb/train/validation.h"

#include <algorithm>
#include <cmath>

#include "plumb/model/decoder.h"

namespace plumb {

void Validation::ByPosition::begin(int n_shard) {
  sums_.assign(static_cast<std::size_t>(n_shard * block_), 0.0);
}

void Validation::ByPosition::at(std::string_view, Dir, View<float> v, int shard) {
  for (std::int64_t i = 0; i < v.rows; ++i)
    sums_[static_cast<std::size_t>(shard * block_ + i % block_)] += static_cast<double>(*v.row(i));
}

void Validation::ByPosition::add_to(std::vector<double>& sums) const {
  for (std::size_t i = 0; i < sums_.size(); ++i) sums[i % static_cast<std::size_t>(block_)] += sums_[i];
}

Validation::Validation(const DecoderSpec& spec, const Components& components, ParamStore<float>& store,
                       const Feed& feed, ThreadPool& pool, Mode mode)
    : feed_(feed),
      batch_(std::min<std::int64_t>(feed.val_rows(), std::max<std::int64_t>(1, 4096 / feed.block_size()))),
      block_(feed.block_size()),
      by_position_(block_),
      plan_(make_plan<float>(spec, components, store, {.mode = mode, .batch = batch_, .block = block_},
                             pool, hooks_)),
      x_(static_cast<std::size_t>(batch_ * block_)),
      y_(x_.size()) {
  plan_.observe(false);
}

double Validation::loss() {
  double sum = 0;
  for (std::int64_t at = 0; at < feed_.val_rows(); at += batch_) {
    feed_.fill_validation(at, x_, y_);
    const LossResult l = plan_.loss(x_, y_, {0, at});
    sum += l.cross_entropy * static_cast<double>(l.tokens);
  }
  return sum / static_cast<double>(feed_.val_targets());
}

double Validation::loss(std::vector<double>& by_position, const std::function<void(double)>& progress) {
  std::vector<double> sums(static_cast<std::size_t>(block_)), counts(sums.size());
  plan_.observe(true);
  for (std::int64_t at = 0; at < feed_.val_rows(); at += batch_) {
    feed_.fill_validation(at, x_, y_);
    plan_.loss(x_, y_, {0, at});
    by_position_.add_to(sums);
    for (std::size_t i = 0; i < y_.size(); ++i) counts[i % counts.size()] += y_[i] >= 0 ? 1 : 0;
    if (progress)
      progress(static_cast<double>(std::min(feed_.val_rows(), at + batch_)) /
               static_cast<double>(feed_.val_rows()));
  }
  plan_.observe(false);
  double total = 0;
  by_position.clear();
  for (std::size_t t = 0; t < sums.size(); ++t) {
    total += sums[t];
    by_position.push_back(sums[t] / counts[t]);
  }
  return total / static_cast<double>(feed_.val_targets());
}

std::string Validation::first_non_finite() {
  for (std::int64_t at = 0; at < feed_.val_rows(); at += batch_) {
    feed_.fill_validation(at, x_, y_);
    if (const auto bad = plan_.first_non_finite(x_, y_, {0, at}))
      return "; the first tensor that is not finite is " + bad->tensor;
  }
  return {};
}

}  // namespace plumb
