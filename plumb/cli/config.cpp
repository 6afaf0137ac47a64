// plumb config: the config as a commented TOML file to be edited, or the resolved config and spec as JSON.
#include "plumb/config/config.h"

#include <fmt/format.h>

#include <cmath>

#include "plumb/base/error.h"
#include "plumb/cli/flags.h"
#include "plumb/cli/say.h"
#include "plumb/model/decoder.h"
#include "plumb/spec/from_config.h"

namespace plumb::cli {
namespace {

// The batch `factor` times as large, learning rates by the optimiser's rule. (That Adam's grow with the batch
// itself, as is often read, holds for SGD alone.)
Config with_batch(Config c, double factor, bool quiet) {
  TrainConfig& t = c.train;
  const TrainConfig before = t;
  const double batch = static_cast<double>(t.batch_size) * factor;
  if (std::abs(batch - std::round(batch)) > 1e-9 * batch || batch < 0.5 || batch > 1 << 20)
    bad_input(
        "--scale-batch {} would make train.batch_size {} instead of {}; name a factor for a whole number",
        factor, batch, t.batch_size);
  const auto rules = optim_table();
  const OptimEntry& rule = choose_optimizer(rules, t.optimizer);
  t.batch_size = std::llround(batch);
  t.lr = rule.scaled_lr(t.lr, factor);
  t.min_lr = rule.scaled_lr(t.min_lr, factor);
  for (const char* key : {"train.batch_size", "train.lr", "train.min_lr"}) c.places[key] = "--scale-batch";
  if (!quiet)
    say("note: train.batch_size {} -> {}; train.lr {} -> {}, times {}{} for {}; train.steps and train.warmup "
        "are as they were, "
        "so the run sees {} times the tokens\n",
        before.batch_size, t.batch_size, before.lr, t.lr,
        rule.batch_power == 0.5 ? "the square root of " : "", factor, rule.name, factor);
  return c;
}

}  // namespace

int config_command(const Flags& f) {
  Config given = config_of(f);
  if (f.scale_batch != 1) given = with_batch(std::move(given), f.scale_batch, f.quiet);
  const Config config = resolve_config(given);
  const DecoderSpec spec = spec_of(config, config.data.vocab_size, Components{});
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
