// Dropout of a tensor of the graph. Srivastava et al. 2014, JMLR 15, 1929-1958.
#pragma once
#include <string>

#include "plumb/kernel/dropout.h"
#include "plumb/plan/builder.h"

namespace plumb {

/// The dropout of one place of a model: what falls depends on the seed, the place's name, the step, the sample
/// and where in the sample an element lies. p = 0: none.
inline Dropout dropout_at(double p, std::int64_t seed, const std::string& name) {
  return {stream(static_cast<std::uint64_t>(seed), "dropout/" + name), p};
}

/// That of one call. `sequence`: of the shard, where the call's tensors begin.
template <class R>
Dropout in_call(Dropout d, const Run<R>& r, std::int64_t sequence = 0) {
  d.step = r.step();
  d.first_sample = r.first_sample() + sequence;
  return d;
}

/// y = f x, f the factors of kernel/dropout.h: rows of a sample's x, which may have any shape, count from its
/// first. dx = f dy. In evaluation y = x, unless `in_eval`.
template <class R>
Value dropped(Builder<R>&, Value x, const Dropout&, const std::string& name, bool in_eval = false);

}  // namespace plumb
