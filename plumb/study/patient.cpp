#include "plumb/study/patient.h"

#include <algorithm>

#include "plumb/model/decoder.h"
#include "plumb/spec/from_config.h"
#include "plumb/tensor/rounding.h"

namespace plumb {
namespace {

// Enough sequences to tell one from another, and positions for statistics of slots.
std::int64_t sequences_for(std::int64_t block) { return std::clamp<std::int64_t>(256 / block, 2, 8); }

const Grid<float>* found(const std::map<std::string, Grid<float>, std::less<>>& in, std::string_view point) {
  const auto at = in.find(point);
  return at == in.end() ? nullptr : &at->second;
}

}  // namespace

const Grid<float>* Seen::find(std::string_view point) const { return found(values, point); }
const Grid<float>* Seen::grad(std::string_view point) const { return found(grads, point); }

bool Lens::wants(std::string_view point, Dir dir) const {
  if (dir == Dir::backward) return point.starts_with("blocks.") && point.ends_with(".out");
  const bool interior = point.ends_with(".scores") || point.ends_with(".weights");
  return !interior || every_head || point.starts_with("blocks.0.");
}

void Lens::begin(int n_shard) {
  values_.assign(static_cast<std::size_t>(n_shard), {});
  grads_.assign(static_cast<std::size_t>(n_shard), {});
}

void Lens::at(std::string_view point, Dir dir, View<float> v, int shard) {
  const auto i = static_cast<std::size_t>(shard);
  if (edit && dir == Dir::forward) edit(point, v, shard * v.rows);
  if (!records || (!only.empty() && point != only)) return;
  Grid<float>& to = (dir == Dir::forward ? values_ : grads_)[i][std::string(point)];
  to.rows = v.rows, to.cols = v.cols;
  to.data.resize(static_cast<std::size_t>(v.rows * v.cols));
  for (std::int64_t r = 0; r < v.rows; ++r) std::copy_n(v.row(r), v.cols, to.data.data() + r * v.cols);
}

void Lens::collect(Seen& seen) const {
  const auto join = [](const std::vector<Parts>& parts, auto& all) {
    for (const Parts& shard : parts)
      for (const auto& [point, part] : shard) {
        Grid<float>& whole = all[point];
        whole.cols = part.cols;
        whole.rows += part.rows;
        whole.data.insert(whole.data.end(), part.data.begin(), part.data.end());
      }
  };
  join(values_, seen.values);
  join(grads_, seen.grads);
}

Patient::Patient(const Config& given, const Components& c, const Corpus& from,
                 const std::filesystem::path& run)
    : Patient(given, c, from, run.empty() ? std::nullopt : std::optional(open_run(run, c))) {}

Patient::Patient(const Config& given, const Components& c, const Corpus& from, std::optional<Opened> opened)
    : components(c),
      corpus(from),
      config(resolve_config(given)),
      sick(with_faults(config, c.fault)),
      faults(run_faults(config, c.fault)),
      step(opened ? opened->info.step : 0),
      spec([&] {
        DecoderSpec s = opened ? opened->info.spec : spec_of(config, 1, c);
        s.noise.dropout = 0;
        return s;
      }()),
      feed(config.data, from, spec.block_size, static_cast<std::int32_t>(spec.ignore_index),
           static_cast<std::uint64_t>(sick.train.seed),
           opened ? std::optional(opened->tokenizer) : std::nullopt, faults),
      store(
          [&] {
            spec.vocab_size = feed.tokenizer().vocab_size();
            return decoder_layout<float>(spec, c);
          }(),
          static_cast<std::uint64_t>(sick.train.seed)),
      x(static_cast<std::size_t>(sequences_for(spec.block_size) * spec.block_size)),
      y(x.size()),
      probes_(spec),
      hooks_{{}, {&lens_[1]}, {&lens_[2]}},
      train_([&] {
        hooks_[0] = probes_.hooks();
        hooks_[0].push_back(&lens_[0]);
        return make_plan<float>(spec, c, store,
                                {.mode = Mode::train,
                                 .batch = sequences_for(spec.block_size),
                                 .block = spec.block_size,
                                 .loss = {sick.train.label_smoothing, sick.train.z_loss},
                                 .loss_factor = faults.loss_factor},
                                pool_, hooks_[0]);
      }()),
      eval_(evaluation(hooks_[1])) {
  probes_.rest(true);
  feed.fill(step, 0, x, y);
  const std::span<float> all = store.values();
  if (opened) {
    std::ranges::copy(opened->store.values(), all.begin());
    std::ranges::copy(opened->store.states(), store.states().begin());
  }
  const auto n = static_cast<std::int64_t>(all.size());
  round_to(storage_format(precision_of(sick.train.precision)), {all.data(), 1, n, n});
}

Plan<float> Patient::evaluation(std::span<Hook<float>* const> hooks) {
  return make_plan<float>(spec, components, store,
                          {.mode = faults.evaluate_in_training_mode ? Mode::train : Mode::eval,
                           .batch = sequences(),
                           .block = spec.block_size},
                          pool_, hooks);
}

Seen Patient::pass(Mode mode, std::span<const std::int32_t> tokens, const Edit& edit, std::int64_t step) {
  Lens& lens = lens_[mode == Mode::train ? 0 : 1];
  lens.edit = edit;
  Seen seen;
  seen.loss = plan(mode).loss(tokens, y, {step, step * sequences()});
  lens.edit = {};
  lens.collect(seen);
  return seen;
}

Seen Patient::pass_to(const std::string& point, const Edit& edit) {
  lens_[0].only = point;
  Seen seen = pass(Mode::train, x, edit);
  lens_[0].only.clear();
  return seen;
}

void Patient::show(Plan<float>& plan, Lens& lens, const Sight& sight, std::span<const std::int32_t> tokens,
                   std::span<const std::int32_t> targets, const CallKey& key) {
  lens.records = false;
  lens.edit = [&](std::string_view point, View<float> v, std::int64_t first) { sight(point, v, first); };
  plan.loss(tokens, targets, key);
  lens.edit = {};
  lens.records = true;
}

void Patient::watch(std::span<const std::int32_t> tokens, const Sight& sight, std::int64_t at) {
  show(eval_, lens_[1], sight, tokens, y, {at, at * sequences()});
}

void Patient::watch_attention(const Sight& sight) {
  lens_[2].every_head = true;
  if (!every_head_) every_head_.emplace(evaluation(hooks_[2]));
  show(*every_head_, lens_[2], sight, x, y, {0, 0});
}

Seen Patient::pass_back() {
  Seen seen;
  probes_.rest(false);
  seen.loss = train_.loss_and_grad(x, y, {0, 0});
  seen.grad_norm = train_.grad_norm();
  lens_[0].collect(seen);
  probes_.rest(true);  // other passes are many
  return seen;
}

std::span<float> Patient::grads() const { return train_.grads(); }
void Patient::probe(StepRow& row) const { probes_.write(row); }

std::string Patient::first_non_finite() {
  const auto bad = train_.first_non_finite(x, y, {0, 0});
  return bad ? bad->tensor : std::string();
}

}  // namespace plumb
