// plumb params: counts from the built tensors.
#include <fmt/format.h>

#include <cmath>

#include "plumb/base/json.h"
#include "plumb/cli/flags.h"
#include "plumb/cli/say.h"
#include "plumb/model/decoder.h"
#include "plumb/spec/from_config.h"

namespace plumb::cli {

/// What [x; f(x)] in place of x + f(x) would cost, once a layer: the stream doubles with each. Parameters of
/// the blocks grow as the square of their width when d_ff keeps its ratio to it; the head reads the last
/// width.
struct Concatenated {
  double last_width = 0, total = 0;
};
Concatenated concatenated(const DecoderSpec& s, const ParamCounts& n) {
  const auto d = static_cast<double>(s.d_model), layers = static_cast<double>(s.n_layer);
  const double block = static_cast<double>(n.attention + n.ffn) / layers;
  Concatenated c{.last_width = std::exp2(layers) * d, .total = static_cast<double>(n.embedding + n.position)};
  for (std::int64_t i = 0; i < s.n_layer; ++i) c.total += block * std::exp2(2.0 * static_cast<double>(i));
  c.total += static_cast<double>(s.vocab_size) * c.last_width;
  return c;
}

int params_command(const Flags& f) {
  const Config config = config_of(f);
  note_faults(config, f.quiet);
  const DecoderSpec spec = spec_of(config, config.data.vocab_size, Components{});
  const ParamCounts n = count_params(spec, decoder_layout<float>(spec, Components{}));
  const std::pair<const char*, std::int64_t> parts[] = {{"embedding", n.embedding},
                                                        {"position", n.position},
                                                        {"attention", n.attention},
                                                        {"ffn", n.ffn},
                                                        {"norm", n.norm},
                                                        {"residual", n.residual},
                                                        {"head", n.head}};
  if (!f.quiet)
    say("note: for a vocabulary of data.vocab_size = {}; a corpus with fewer symbols gives a smaller one\n",
        config.data.vocab_size);
  if (f.json) {
    Json j = Json::object(), p = Json::object();
    j["total"] = n.total;
    j["active"] = n.active;
    for (const auto& [name, count] : parts) p[name] = count;
    j["parts"] = p;
    if (!f.residual.empty()) {
      const Concatenated c = concatenated(spec, n);
      Json r = Json::object();
      r["last_width"] = c.last_width, r["total"] = c.total;
      j["concat"] = r;
    }
    fmt::print("{}\n", j.dump());
    return 0;
  }
  for (const auto& [name, count] : parts)
    fmt::print("{:<10} {:>12}  {:5.1f} %\n", name, count,
               100 * static_cast<double>(count) / static_cast<double>(n.total));
  fmt::print("{:<10} {:>12}\n", "total", n.total);
  if (n.active != n.total) fmt::print("{:<10} {:>12}  a token uses so many\n", "active", n.active);
  if (spec.tied_embeddings) fmt::print("the head is the embedding, counted once\n");
  if (f.residual.empty()) return 0;
  const Concatenated c = concatenated(spec, n);
  fmt::print(
      "\nconcatenating once a layer instead of adding: each layer doubles the width\n"
      "  the last layer leaves 2^{} x {} = {:.4g} features; adding leaves {}\n"
      "  about {:.3g} parameters (blocks as the square of their width, d_ff in proportion, a head of the "
      "last width), "
      "{:.3g} times the {} of adding\n",
      spec.n_layer, spec.d_model, c.last_width, spec.d_model, c.total, c.total / static_cast<double>(n.total),
      n.total);
  return 0;
}

}  // namespace plumb::cli
