// manifest.json: what a run was made with.
#pragma once
#include "plumb/base/json.h"
#include "plumb/config/config.h"
#include "plumb/data/text_corpus.h"

namespace plumb {

/// Versions, hashes of corpus, binary, config and final parameters, machine, instruction-set target.
Json manifest(const Config& resolved, const Corpus&, const std::string& params_hash);

}  // namespace plumb
