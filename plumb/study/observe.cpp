#include "plumb/study/observe.h"

namespace plumb {

ProbeSet::ProbeSet(const DecoderSpec& spec) {
  for (const ProbeEntry& e : probe_table()) probes_.push_back(e.make(spec));
}

std::vector<Hook<float>*> ProbeSet::hooks() const {
  std::vector<Hook<float>*> all;
  for (const auto& p : probes_) all.push_back(p.get());
  return all;
}

void ProbeSet::write(StepRow& row) const {
  for (const auto& p : probes_) p->write(row);
}

Observers observers_of(ProbeSet& probes) {
  return {probes.hooks(), {}, [&probes](StepRow& row) { probes.write(row); }};
}

}  // namespace plumb
