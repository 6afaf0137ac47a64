#include "plumb/instrument/instrument.h"

#include "plumb/base/error.h"

namespace plumb {

void stop_if_asked(const InstrumentOptions& o) {
  if (o.interrupted && o.interrupted()) throw Error("interrupted; nothing was written", 130);
}

std::vector<std::int64_t> layers_of(const Patient& p, const InstrumentOptions& o) {
  if (o.layer >= p.spec.n_layer)
    bad_input("the model has blocks 0 to {}; there is no block {}", p.spec.n_layer - 1, o.layer);
  if (o.layer >= 0) return {o.layer};
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < p.spec.n_layer; ++i) all.push_back(i);
  return all;
}

}  // namespace plumb
