// From [train] to an optimiser and its rates.
#pragma once
#include <memory>

#include "plumb/config/config.h"
#include "plumb/model/components.h"
#include "plumb/optim/optim.h"
#include "plumb/optim/schedule.h"

namespace plumb {

/// `config` is resolved. bad_input for an optimiser that no table has. `threads`: those of the pool of its
/// updates.
template <class R>
std::unique_ptr<Optimizer<R>> make_optimizer(const TrainConfig& config, const Components&, const ParamLayout&,
                                             int threads);

/// Learning rate and share of the schedule of the update after `step` updates.
Rate rate_at(const TrainConfig& config, std::int64_t step);

}  // namespace plumb
