#include "tests/support/run_norm.h"

#include <algorithm>

#include "plumb/model/components.h"
#include "plumb/model/ends.h"
#include "plumb/plan/plan.h"

namespace plumb::test {
namespace {

struct KeepRow final : Hook<double> {
  std::vector<double> row;
  bool wants(std::string_view p, Dir d) const override { return p == "y" && d == Dir::forward; }
  void at(std::string_view, Dir, View<double> v, int) override { row.assign(v.data, v.data + v.cols); }
};

}  // namespace

// The row becomes the only row of an embedding table, read by token 0.
std::vector<double> run_norm(const std::string& name, double eps, const std::vector<double>& row) {
  DecoderSpec s;
  s.norm = name, s.norm_eps = eps;
  const std::vector<NormEntry> table = norm_table();
  const auto norm = choose(table, "norm", name, s).make<double>(s);
  const Dim channels{'C', static_cast<std::int64_t>(row.size()), true};
  KeepRow keep;
  Hook<double>* hooks[] = {&keep};
  Builder<double> b({.init = [](const ParamSpec&, double) { return ParamRule{}; }}, Mode::train, hooks);
  const Value x = embed_tokens(b, b.param({.name = "x", .shape = {{'V', 1}, channels}}), 1);
  const Value y = b.point("y", norm->build(b, x, "norm", 0));
  token_loss(b, y, s.ignore_index);
  GraphOf<double> graph = b.finish();
  ParamStore<double> store(graph.layout(), 0);
  std::ranges::copy(row, store.param("x").data);
  ThreadPool pool(1);
  Plan<double> plan(std::move(graph), store, {.batch = 1, .block = 1}, pool, hooks);
  const std::int32_t token[] = {0};
  plan.loss(token, token);
  return keep.row;
}

}  // namespace plumb::test
