// What a position of a model sees: nothing later than itself, and the same one at a time as all at once.
#pragma once
#include <span>

#include "plumb/model/components.h"
#include "plumb/plan/plan.h"

namespace plumb {

struct Sight {
  bool own = false;      // another last token changes its own logits
  bool earlier = false;  // … or those before it
  bool said = false;     // an op says that it sees the future
};

/// In training, on one sequence of `tokens` and the same with another last token.
Sight sight_of(const DecoderSpec&, const Components&, ParamStore<double>&,
               std::span<const std::int32_t> tokens);

struct CacheCheck {
  std::string refused;      // why it cannot decode; empty: it can
  bool may_refuse = false;  // an op sees the future
  double worst = 0;         // |cached - whole| over max(1, |whole|), of all logits at all lengths
  std::int64_t at = 0;      // the position of the worst
};

/// One token at a time with its cache, against one pass over each beginning of `tokens` by itself.
CacheCheck check_cache(const DecoderSpec&, const Components&, ParamStore<double>&,
                       std::span<const std::int32_t> tokens);

/// Logits of one evaluating pass, row by row.
std::vector<double> logits_of(const DecoderSpec&, const Components&, ParamStore<double>&,
                              std::span<const std::int32_t> tokens, Mode mode = Mode::eval);

}  // namespace plumb
