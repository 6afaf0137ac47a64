#include "plumb/study/observe.h"

#include <algorithm>

#include "plumb/base/clock.h"

namespace plumb {

/// A probe that can rest, and whose time is taken.
class ProbeSet::Watched final : public Hook<float> {
 public:
  Watched(const ProbeEntry& e, const DecoderSpec& spec) : entry(e), probe(e.make(spec)) {}
  bool wants(std::string_view point, Dir dir) const override { return probe->wants(point, dir); }
  void begin(int n_shard) override {
    if (!on || asleep) return;
    seconds_.assign(static_cast<std::size_t>(n_shard), 0);
    probe->begin(n_shard);
  }
  void at(std::string_view point, Dir dir, View<float> v, int shard) override {
    if (!on || asleep) return;
    const double t0 = now_s();
    probe->at(point, dir, v, shard);
    seconds_[static_cast<std::size_t>(shard)] += now_s() - t0;
  }
  void merge(int n_shard) override {
    if (!on || asleep) return;
    const double t0 = now_s();
    probe->merge(n_shard);
    spent += now_s() - t0;
    for (const double s : seconds_) spent += s;
    ++steps;
  }
  void updated(const ParamLayout& layout, std::span<const float> before, std::span<const float> after,
               std::span<const float> grads) {
    if (!on || !probe->watches_update()) return;
    const double t0 = now_s();
    probe->updated(layout, before, after, grads);
    spent += now_s() - t0;
  }

  const ProbeEntry entry;
  const std::unique_ptr<Probe> probe;
  bool on = true, asleep = false;
  double spent = 0;
  std::int64_t steps = 0;

 private:
  std::vector<double> seconds_;  // by shard, of one step
};

ProbeSet::ProbeSet(const DecoderSpec& spec) {
  for (const ProbeEntry& e : probe_table()) probes_.push_back(std::make_unique<Watched>(e, spec));
}

ProbeSet::~ProbeSet() = default;

std::vector<Hook<float>*> ProbeSet::hooks() const {
  std::vector<Hook<float>*> all;
  for (const auto& p : probes_) all.push_back(p.get());
  return all;
}

void ProbeSet::choose(bool all) {
  for (const auto& p : probes_) p->on = all || !p->entry.costly;
}

void ProbeSet::rest(bool asleep) {
  for (const auto& p : probes_) p->asleep = asleep;
}

bool ProbeSet::watches_update() const {
  return std::ranges::any_of(probes_, [](const auto& p) { return p->probe->watches_update(); });
}

void ProbeSet::updated(const ParamLayout& layout, std::span<const float> before, std::span<const float> after,
                       std::span<const float> grads) {
  for (const auto& p : probes_) p->updated(layout, before, after, grads);
}

void ProbeSet::write(StepRow& row) const {
  for (const auto& p : probes_)
    if (p->on) p->probe->write(row);
}

std::string ProbeSet::memory() const {
  Json all = Json::object();
  bool any = false;
  for (const auto& p : probes_)
    if (std::string text = p->probe->memory(); !text.empty()) {
      all[std::string(p->entry.name)] = std::move(text);
      any = true;
    }
  return any ? all.dump() : std::string();
}

void ProbeSet::recall(const std::string& text) {
  const char* what = "what the checkpoint remembers for probes";
  const Json all = Json::parse(text, what);
  for (const auto& p : probes_)
    if (const Json* of_it = all.find(p->entry.name)) p->probe->recall(of_it->as_string(what));
}

std::vector<ProbeSet::Cost> ProbeSet::costs() const {
  std::vector<Cost> all;
  for (const auto& p : probes_) all.push_back({p->entry.name, p->spent, p->steps, p->entry.costly});
  return all;
}

Observers observers_of(ProbeSet& probes) {
  Observers o{probes.hooks(),
              [&probes](bool all) { probes.choose(all); },
              {},
              [&probes](StepRow& row) { probes.write(row); },
              [&probes] { return probes.memory(); },
              [&probes](const std::string& text) { probes.recall(text); }};
  if (probes.watches_update())
    o.updated = [&probes](const ParamLayout& layout, std::span<const float> before,
                          std::span<const float> after,
                          std::span<const float> grads) { probes.updated(layout, before, after, grads); };
  return o;
}

}  // namespace plumb
