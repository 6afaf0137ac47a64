// Short trainings that are compared with each other and kept by nobody.
#pragma once
#include <functional>

#include "plumb/train/trainer.h"

namespace plumb {

/// The config with `steps` updates. Where that is fewer than it had, its warm-up shrinks with them; nothing
/// is validated or written down on the way.
Config shortened_to(const Config&, std::int64_t steps);

/// Trains it from `seed` in a folder that is gone afterwards. Error with exit status 130 when the person
/// asked to stop.
TrainResult short_run(Config, std::int64_t seed, const Components&, const Corpus&,
                      const std::function<bool()>& interrupted);

}  // namespace plumb
