// plumb params: counts from the built tensors.
#include <fmt/format.h>

#include "plumb/base/json.h"
#include "plumb/cli/flags.h"
#include "plumb/model/decoder.h"
#include "plumb/spec/from_config.h"

namespace plumb::cli {

int params_command(const Flags& f) {
  const Config config = config_of(f);
  const DecoderSpec spec = spec_from_config(config, config.data.vocab_size);
  const ParamCounts n = count_params(spec, decoder_layout<float>(spec, Components{}));
  const std::pair<const char*, std::int64_t> parts[] = {{"embedding", n.embedding},
                                                        {"position", n.position},
                                                        {"attention", n.attention},
                                                        {"ffn", n.ffn},
                                                        {"norm", n.norm},
                                                        {"residual", n.residual},
                                                        {"head", n.head}};
  if (f.json) {
    Json j = Json::object(), p = Json::object();
    j["total"] = n.total;
    j["active"] = n.active;
    for (const auto& [name, count] : parts) p[name] = count;
    j["parts"] = p;
    fmt::print("{}\n", j.dump());
    return 0;
  }
  for (const auto& [name, count] : parts)
    fmt::print("{:<10} {:>12}  {:5.1f} %\n", name, count,
               100 * static_cast<double>(count) / static_cast<double>(n.total));
  fmt::print("{:<10} {:>12}\n", "total", n.total);
  if (n.active != n.total) fmt::print("{:<10} {:>12}  a token uses so many\n", "active", n.active);
  if (spec.tied_embeddings) fmt::print("the head is the embedding, counted once\n");
  return 0;
}

}  // namespace plumb::cli
