#include "tests/support/run_component.h"

#include <algorithm>
#include <numeric>

#include "plumb/model/ends.h"
#include "plumb/plan/plan.h"

namespace plumb::test {
namespace {

// Keeps y, and puts dy in place of the loss's gradient of it.
template <class R>
struct AtOutput final : Hook<R> {
  Matrix<R> y, dy;
  bool wants(std::string_view p, Dir) const override { return p == "y"; }
  bool rewrites() const override { return true; }
  void at(std::string_view, Dir dir, View<R> v, int) override {
    if (dir == Dir::forward) y = Matrix<R>(v.rows, v.cols);
    for (std::int64_t i = 0; i < v.rows; ++i) {
      if (dir == Dir::forward) std::copy_n(v.row(i), v.cols, y.view().row(i));
      if (dir == Dir::backward) std::copy_n(dy.view().row(i), v.cols, v.row(i));
    }
  }
};

}  // namespace

// x becomes an embedding table whose row i is read by token i.
template <class R>
Ran<R> run_component(const std::function<Value(Builder<R>&, Value x)>& build, const Matrix<R>& x,
                     std::int64_t sequences, const Matrix<R>& dy,
                     const std::map<std::string, Matrix<R>>& start) {
  AtOutput<R> hook;
  hook.dy = dy;
  Hook<R>* hooks[] = {&hook};
  Builder<R> b({.init = [](const ParamSpec&, double) { return ParamRule{}; }}, Mode::train, hooks);
  const std::int64_t block = x.rows / sequences;
  const Value read =
      embed_tokens(b, b.param({.name = "x", .shape = {{'V', x.rows}, {'C', x.cols, true}}}), block);
  token_loss(b, b.point("y", build(b, read)), -100);
  GraphOf<R> graph = b.finish();
  ParamStore<R> store(graph.layout(), 0);
  std::ranges::copy(x.data, store.param("x").data);
  for (const auto& [name, values] : start) {
    const View<R> p = store.param(name);
    std::ranges::copy(values.data, p.data);
  }
  ThreadPool pool(1);
  Plan<R> plan(std::move(graph), store, {.batch = sequences, .block = block}, pool, hooks);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(x.rows)), targets(ids.size(), 0);
  std::iota(ids.begin(), ids.end(), 0);
  if (dy.data.empty()) {
    plan.loss(ids, targets);
    return {hook.y, {}};
  }
  plan.loss_and_grad(ids, targets);
  Ran<R> ran{hook.y, {}};
  for (const ParamInfo& p : store.layout().params) {
    const View<R> g = plan.grad(p.spec.name);
    Matrix<R>& to = ran.grads[p.spec.name] = Matrix<R>(g.rows, g.cols);
    for (std::int64_t i = 0; i < g.rows; ++i) std::copy_n(g.row(i), g.cols, to.view().row(i));
  }
  return ran;
}

template Ran<float> run_component(const std::function<Value(Builder<float>&, Value)>&, const Matrix<float>&,
                                  std::int64_t, const Matrix<float>&,
                                  const std::map<std::string, Matrix<float>>&);
template Ran<double> run_component(const std::function<Value(Builder<double>&, Value)>&,
                                   const Matrix<double>&, std::int64_t, const Matrix<double>&,
                                   const std::map<std::string, Matrix<double>>&);

}  // namespace plumb::test
