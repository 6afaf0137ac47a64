// plumb config: the config as a commented TOML file to be edited, or the resolved config and spec as JSON.
#include "plumb/config/config.h"

#include <fmt/format.h>

#include "plumb/cli/flags.h"
#include "plumb/model/decoder.h"
#include "plumb/spec/from_config.h"

namespace plumb::cli {

int config_command(const Flags& f) {
  const Config given = config_of(f), config = resolve_config(given);
  const DecoderSpec spec = spec_from_config(config, config.data.vocab_size);
  check_spec(spec, Components{});
  if (f.json) {
    Json j = Json::object();
    j["config"] = config_to_json(config);
    j["spec"] = spec_to_json(spec);
    fmt::print("{}\n", j.dump());
    return 0;
  }
  fmt::print("{}", dump_toml(given, true, known_names(Components{})));
  return 0;
}

}  // namespace plumb::cli
