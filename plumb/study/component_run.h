// One component by itself, on given numbers: for worked examples and for tests.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "plumb/plan/builder.h"

namespace plumb {

/// A matrix of its own memory.
template <class R>
struct Grid {
  std::int64_t rows = 0, cols = 0;
  std::vector<R> data = {};
};

/// The output, and the gradients of Σ y dy: of the input as "x", of parameters by their names.
template <class R>
struct ComponentRun {
  Grid<R> y;
  std::map<std::string, Grid<R>> grads;
};

/// `build` adds the component to the graph; it reads x (sequences · T, C). Parameters start with `start` (by
/// name; what is not there keeps its own start, or 0 where the init rule would say). An empty `dy`: forward
/// only. `rules`: what stands around it; the init rule is ours.
template <class R>
ComponentRun<R> run_component(const std::function<Value(Builder<R>&, Value x)>& build, const Grid<R>& x,
                              std::int64_t sequences, const Grid<R>& dy,
                              const std::map<std::string, Grid<R>>& start = {}, Rules<R> rules = {});

}  // namespace plumb
