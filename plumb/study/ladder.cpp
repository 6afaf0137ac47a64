#include "plumb/study/ladder.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "plumb/base/error.h"
#include "plumb/model/decoder.h"
#include "plumb/spec/from_config.h"
#include "plumb/study/short_run.h"

namespace plumb {
namespace {

struct Arm {
  std::string_view name, setting;
};

constexpr Arm arms[] = {
    {"no residual path", "model.residual=none"},
    {"no norms", "model.norm=none"},
    {"no final norm", "model.final_norm=false"},
    {"no scaled init", "init.residual_scale=false"},
    {"untied embeddings", "model.tied_embeddings=false"},
    {"no positions", "model.position=none"},
    {"no query and key projection", "model.attention.qk_projection=false"},
    {"no value projection", "model.attention.value_projection=false"},
    {"no output projection", "model.attention.output_projection=false"},
};

// The config without the part; none where that is the same model.
std::optional<Config> without(const Config& given, const Arm& arm, const Components& components) {
  Config c = given;
  set_value(c, std::string(arm.setting));
  if (config_to_json(resolve_config(c)) == config_to_json(resolve_config(given))) return {};
  const std::string key(arm.setting.substr(0, arm.setting.find('=')));
  const auto unread = unused_settings(c, components);
  if (std::ranges::any_of(unread, [&](const std::string& s) { return s.starts_with(key + " "); })) return {};
  check_spec(spec_of(c, c.data.vocab_size, components), components);
  return c;
}

}  // namespace

double Rung::mean() const {
  double sum = 0, n = 0;
  for (const double l : losses)
    if (std::isfinite(l)) sum += l, ++n;
  return sum / n;
}

std::string degenerate_as(double loss, const Baselines& b) {
  constexpr double within = 0.02;
  if (std::abs(loss - b.unigram) <= within) return "unigram";
  return std::abs(loss - b.uniform) <= within ? "uniform" : "";
}

Ladder ladder(const Config& given, const Components& components, const Corpus& corpus,
              const LadderOptions& o) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  const Config whole = shortened_to(given, o.steps);
  Ladder all{.steps = o.steps, .seeds = o.seeds, .rungs = {}};
  std::vector<Config> configs{whole};
  all.rungs.push_back({"whole", "", {}});
  int runs = 1;
  for (const Arm& arm : arms) {
    Rung rung{std::string(arm.name), std::string(arm.setting), {}};
    try {
      const std::optional<Config> c = without(whole, arm, components);
      if (!c) continue;
      configs.push_back(*c);
      ++runs;
    } catch (const Error& e) {
      rung.refused = e.what();
      configs.push_back(whole);
    }
    all.rungs.push_back(std::move(rung));
  }
  runs *= static_cast<int>(o.seeds);
  // Seed by seed, so that what was interrupted late has compared most arms.
  int run = 0;
  for (std::int64_t seed = given.train.seed; seed < given.train.seed + o.seeds; ++seed)
    for (std::size_t i = 0; i < configs.size(); ++i) {
      Rung& rung = all.rungs[i];
      if (!rung.refused.empty()) continue;
      if (o.progress) o.progress(rung.arm, run++, runs);
      const TrainResult r = short_run(configs[i], seed, components, corpus, o.interrupted);
      const bool done = r.status == "done" && std::isfinite(r.val_loss);
      rung.losses.push_back(done ? r.val_loss : nan);
      rung.broke += !done;
      if (done) all.baselines = r.baselines;
    }
  for (Rung& rung : all.rungs) {
    if (!rung.refused.empty()) continue;
    if (&rung != &all.rungs.front() && rung.broke + all.rungs.front().broke == 0)
      rung.delta = paired(rung.losses, all.rungs.front().losses);
    rung.degenerate = degenerate_as(rung.mean(), all.baselines);
  }
  return all;
}

}  // namespace plumb
