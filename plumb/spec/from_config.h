// The config → spec step: copies what a user said, fills in what follows from it, and refuses what
// contradicts it.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "plumb/base/json.h"
#include "plumb/config/config.h"
#include "plumb/spec/spec.h"

namespace plumb {

/// The one table of DecoderSpec's fields; a row's path ("attention.scale") is the config's key below [model],
/// or in [init].
const std::vector<Field<DecoderSpec>>& spec_fields();

/// Resolves implied values:
/// - d_head = d_model / n_head; final_norm = there is a norm and the placement is not "post" (every other
///   placement leaves a stream that is not normalised before the head);
/// - init.scheme "fixup" implies norm "none", residual "add" and an untied head (Zhang et al. 2019);
/// - residual "rezero" implies norm "none" (Bachlechner et al. 2020); "nf" implies norm "none" and
///   weight_param "scaled_ws" (Brock et al. 2021);
/// - position "t5" implies attention scale "none" (Raffel et al. 2020);
///
/// bad_input when a given value contradicts an implied one, with the reason and file:line, and when d_model
/// is not divisible by n_head (and no d_head is given).
DecoderSpec spec_from_config(const Config& config, std::int64_t vocab_size);

/// `config` with every implied value written into it: what the run folder's config.toml shows. Same errors.
Config resolve_config(const Config& config);

/// Every field, nested as in the struct.
Json spec_to_json(const DecoderSpec& spec);

/// The inverse. A missing key has its default, but for the sizes. bad_input, naming `name` and the key, for an
/// unknown key, a missing size, a wrong type or a value out of range.
DecoderSpec spec_from_json(const Json& json, std::string_view name);

}  // namespace plumb
