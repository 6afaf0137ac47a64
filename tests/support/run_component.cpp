#include "tests/support/run_component.h"

#include "plumb/study/component_run.h"

namespace plumb::test {
namespace {

template <class R>
Grid<R> grid(const Matrix<R>& m) {
  return {m.rows, m.cols, m.data};
}
template <class R>
Matrix<R> matrix(const Grid<R>& g) {
  Matrix<R> m(g.rows, g.cols);
  m.data = g.data;
  return m;
}

}  // namespace

template <class R>
Ran<R> run_component(const std::function<Value(Builder<R>&, Value x)>& build, const Matrix<R>& x,
                     std::int64_t sequences, const Matrix<R>& dy,
                     const std::map<std::string, Matrix<R>>& start) {
  std::map<std::string, Grid<R>> from;
  for (const auto& [name, values] : start) from.emplace(name, grid(values));
  const ComponentRun<R> ran = plumb::run_component<R>(build, grid(x), sequences, grid(dy), from);
  Ran<R> all{matrix(ran.y), {}};
  for (const auto& [name, g] : ran.grads) all.grads.emplace(name, matrix(g));
  return all;
}

template Ran<float> run_component(const std::function<Value(Builder<float>&, Value)>&, const Matrix<float>&,
                                  std::int64_t, const Matrix<float>&,
                                  const std::map<std::string, Matrix<float>>&);
template Ran<double> run_component(const std::function<Value(Builder<double>&, Value)>&,
                                   const Matrix<double>&, std::int64_t, const Matrix<double>&,
                                   const std::map<std::string, Matrix<double>>&);

}  // namespace plumb::test
