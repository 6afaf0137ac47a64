#include "plumb/study/component_run.h"

#include <algorithm>
#include <numeric>

#include "plumb/model/ends.h"
#include "plumb/plan/graph.h"
#include "plumb/plan/plan.h"

namespace plumb {
namespace {

template <class R>
Grid<R> copied(View<const R> v) {
  Grid<R> g{v.rows, v.cols};
  for (std::int64_t i = 0; i < v.rows; ++i) g.data.insert(g.data.end(), v.row(i), v.row(i) + v.cols);
  return g;
}

// Keeps y, and puts dy in place of the loss's gradient of it.
template <class R>
struct AtOutput final : Hook<R> {
  Grid<R> y;
  const Grid<R>* dy = nullptr;
  bool wants(std::string_view p, Dir) const override { return p == "y"; }
  bool rewrites() const override { return true; }
  void at(std::string_view, Dir dir, View<R> v, int) override {
    if (dir == Dir::forward) y = copied(View<const R>(v));
    for (std::int64_t i = 0; dir == Dir::backward && i < v.rows; ++i)
      std::copy_n(dy->data.begin() + i * v.cols, v.cols, v.row(i));
  }
};

}  // namespace

// x becomes an embedding table whose row i is read by token i.
template <class R>
ComponentRun<R> run_component(const std::function<Value(Builder<R>&, Value)>& build, const Grid<R>& x,
                              std::int64_t sequences, const Grid<R>& dy,
                              const std::map<std::string, Grid<R>>& start, Rules<R> rules) {
  AtOutput<R> hook;
  hook.dy = &dy;
  Hook<R>* hooks[] = {&hook};
  rules.init = [](const ParamSpec&, double) { return ParamRule{}; };
  Builder<R> b(std::move(rules), Mode::train, hooks);
  const std::int64_t block = x.rows / sequences;
  const Value read =
      embed_tokens(b, b.param({.name = "x", .shape = {{'V', x.rows}, {'C', x.cols, true}}}), block);
  token_loss(b, b.point("y", build(b, read)), -100);
  GraphOf<R> graph = b.finish();
  ParamStore<R> store(graph.layout(), 0);
  std::ranges::copy(x.data, store.param("x").data);
  for (const auto& [name, values] : start) std::ranges::copy(values.data, store.param(name).data);
  ThreadPool pool(1);
  Plan<R> plan(std::move(graph), store, {.batch = sequences, .block = block}, pool, hooks);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(x.rows)), targets(ids.size(), 0);
  std::iota(ids.begin(), ids.end(), 0);
  if (dy.data.empty()) {
    plan.loss(ids, targets);
    return {hook.y, {}};
  }
  plan.loss_and_grad(ids, targets);
  ComponentRun<R> ran{hook.y, {}};
  for (const ParamInfo& p : store.layout().params)
    ran.grads[p.spec.name] = copied(View<const R>(plan.grad(p.spec.name)));
  return ran;
}

#define PLUMB_INSTANTIATE(R)                                                                              \
  template ComponentRun<R> run_component(const std::function<Value(Builder<R>&, Value)>&, const Grid<R>&, \
                                         std::int64_t, const Grid<R>&,                                    \
                                         const std::map<std::string, Grid<R>>&, Rules<R>);
PLUMB_INSTANTIATE(float)
PLUMB_INSTANTIATE(double)
#undef PLUMB_INSTANTIATE

}  // namespace plumb
