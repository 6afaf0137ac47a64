#include "plumb/study/observe.h"

#include <algorithm>

namespace plumb {

ProbeSet::ProbeSet(const DecoderSpec& spec) {
  for (const ProbeEntry& e : probe_table()) probes_.push_back(e.make(spec));
}

std::vector<Hook<float>*> ProbeSet::hooks() const {
  std::vector<Hook<float>*> all;
  for (const auto& p : probes_) all.push_back(p.get());
  return all;
}

bool ProbeSet::watches_update() const {
  return std::ranges::any_of(probes_, [](const auto& p) { return p->watches_update(); });
}

void ProbeSet::updated(const ParamLayout& layout, std::span<const float> before,
                       std::span<const float> after) {
  for (const auto& p : probes_)
    if (p->watches_update()) p->updated(layout, before, after);
}

void ProbeSet::write(StepRow& row) const {
  for (const auto& p : probes_) p->write(row);
}

Observers observers_of(ProbeSet& probes) {
  Observers o{probes.hooks(), {}, [&probes](StepRow& row) { probes.write(row); }};
  if (probes.watches_update())
    o.updated = [&probes](const ParamLayout& layout, std::span<const float> before,
                          std::span<const float> after) { probes.updated(layout, before, after); };
  return o;
}

}  // namespace plumb
