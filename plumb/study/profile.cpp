#include "plumb/study/profile.h"

#include <cmath>

#include "plumb/model/decoder.h"
#include "plumb/spec/from_config.h"
#include "plumb/study/observe.h"
#include "plumb/train/feed.h"
#include "plumb/train/opened.h"

namespace plumb {

Profile profile(const Config& given, const std::filesystem::path& checkpoint, const Components& components,
                const Corpus& corpus) {
  std::optional<Opened> opened;
  if (!checkpoint.empty()) opened = open_run(checkpoint, components);
  const Config config = resolve_config(given);
  const TrainConfig& t = config.train;
  DecoderSpec spec = opened ? opened->info.spec : spec_of(config, 1, components);
  const Feed feed(config.data, corpus, spec.block_size, static_cast<std::int32_t>(spec.ignore_index),
                  static_cast<std::uint64_t>(t.seed),
                  opened ? std::optional(opened->tokenizer) : std::nullopt,
                  run_faults(config, components.fault));
  spec.vocab_size = feed.tokenizer().vocab_size();
  spec.noise.dropout = 0;  // the model, not one draw of its noise
  ParamStore<float> fresh(decoder_layout<float>(spec, components), static_cast<std::uint64_t>(t.seed));
  ThreadPool pool(static_cast<int>(t.threads));
  ProbeSet probes(spec);
  const auto hooks = probes.hooks();
  auto plan =
      make_plan<float>(spec, components, opened ? opened->store : fresh,
                       {.mode = Mode::train, .batch = t.batch_size, .block = spec.block_size}, pool, hooks);

  Profile p;
  p.step = opened ? opened->info.step : 0;
  p.uniform = feed.baselines().uniform;
  std::vector<std::int32_t> x(static_cast<std::size_t>(t.batch_size * spec.block_size)), y(x.size());
  feed.fill(p.step, 0, x, y);
  p.loss = plan.loss_and_grad(x, y, {p.step, p.step * t.batch_size}).loss;
  if (!std::isfinite(p.loss))
    if (const auto bad = plan.first_non_finite(x, y, {p.step, p.step * t.batch_size}))
      p.non_finite = bad->tensor;
  p.row.step = p.step;
  p.row.values = {{"loss", p.loss}, {"grad_norm", plan.grad_norm()}};
  probes.write(p.row);
  p.predicted_act_std.assign(static_cast<std::size_t>(spec.n_layer), std::nan(""));
  for (const ValueInfo& v : plan.graph().values)
    for (const std::string& point : v.points)
      if (const int layer = index_of(point, "blocks.{i}.out"); layer >= 0)
        p.predicted_act_std[static_cast<std::size_t>(layer)] = std::sqrt(v.expected_var);
  return p;
}

}  // namespace plumb
