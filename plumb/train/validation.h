// The loss over the whole validation split.
#pragma once
#include "plumb/model/components.h"
#include "plumb/plan/plan.h"
#include "plumb/train/feed.h"

namespace plumb {

class Validation {
 public:
  /// Rows of `spec.block_size` tokens, about 4,096 tokens a call. Borrows all of its arguments.
  Validation(const DecoderSpec& spec, const Components&, ParamStore<float>& store, const Feed& feed, ThreadPool& pool,
             std::span<Hook<float>* const> hooks = {});

  /// Mean cross-entropy in nats over all targets.
  double loss();
  /// After a loss that is not finite: "; the first tensor that is not finite is …", or nothing.
  std::string first_non_finite();
  std::vector<Plan<float>::Part> memory() const { return plan_.memory(); }

 private:
  const Feed& feed_;
  std::int64_t batch_;
  Plan<float> plan_;
  std::vector<std::int32_t> x_, y_;
};

}  // namespace plumb
