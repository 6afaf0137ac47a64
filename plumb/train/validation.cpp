#include "plumb/train/validation.h"

#include <algorithm>
#include <cmath>

#include "plumb/model/decoder.h"

namespace plumb {

Validation::Validation(const DecoderSpec& spec, const Components& components, ParamStore<float>& store, const Feed& feed,
                       ThreadPool& pool, std::span<Hook<float>* const> hooks)
    : feed_(feed),
      batch_(std::min<std::int64_t>(feed.val_rows(), std::max<std::int64_t>(1, 4096 / spec.block_size))),
      plan_(make_plan<float>(spec, components, store, {.mode = Mode::eval, .batch = batch_, .block = spec.block_size},
                             pool, hooks)),
      x_(static_cast<std::size_t>(batch_ * spec.block_size)),
      y_(x_.size()) {}

double Validation::loss() {
  double sum = 0;
  for (std::int64_t at = 0; at < feed_.val_rows(); at += batch_) {
    feed_.fill_validation(at, x_, y_);
    const LossResult l = plan_.loss(x_, y_, {0, at});
    sum += l.cross_entropy * static_cast<double>(l.tokens);
  }
  return sum / static_cast<double>(feed_.val_targets());
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
