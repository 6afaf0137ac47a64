// manifest.json: what a run was made with.
#pragma once
#include "plumb/base/json.h"
#include "plumb/config/config.h"
#include "plumb/data/text_corpus.h"

namespace plumb {

/// Versions, hashes of corpus, binary and config, machine, instruction-set target. What changes while a run
/// goes on (status, steps, params_hash) is its writer's to add.
Json manifest(const Config& resolved, const Corpus&);

}  // namespace plumb
