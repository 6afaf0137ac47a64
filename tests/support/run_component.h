// Runs what one component builds, alone, on given numbers and a given gradient of its output.
#pragma once
#include <functional>
#include <map>
#include <string>

#include "plumb/plan/builder.h"
#include "tests/support/reference.h"

namespace plumb::test {

/// The output and the gradients of Σ y dy: of the input as "x", of parameters by their names.
template <class R>
struct Ran {
  Matrix<R> y;
  std::map<std::string, Matrix<R>> grads;
};

/// `build` adds the component to the graph; it reads x (sequences · T, C). Parameters start with `start` (by
/// name; what is not there keeps its own start). An empty `dy`: forward only.
template <class R>
Ran<R> run_component(const std::function<Value(Builder<R>&, Value x)>& build, const Matrix<R>& x,
                     std::int64_t sequences, const Matrix<R>& dy,
                     const std::map<std::string, Matrix<R>>& start = {});

}  // namespace plumb::test
