#include "plumb/study/path_plan.h"

#include <algorithm>

#include "plumb/base/error.h"
#include "plumb/model/decoder.h"
#include "plumb/study/audit.h"

namespace plumb {
namespace {

constexpr std::string_view entrance = "blocks.0.in";

// Not a fault, but put into the graph as one: each end of an addition becomes a value that nothing else reads.
template <class R>
struct EdgesApart final : GraphFault<R> {
  EdgesApart(const DecoderSpec&, double) {}
  Value at(Builder<R>& b, std::string_view point, Value v) override {
    if (!point.ends_with(".skip") && !point.ends_with(".write")) return v;
    return scaled(b, 1, v, std::string(point) + ".apart");
  }
};
constexpr FaultEntry edges_apart =
    graph_fault<EdgesApart>({.name = "edges_apart", .what = "skips and writes are values of their own"});

Plan<float> plan_with_edges(Patient& p, ThreadPool& pool, std::span<Hook<float>* const> hooks) {
  Components c = p.components;
  c.fault.push_back(edges_apart);
  DecoderSpec s = p.spec;
  s.flaws.faults.emplace_back(edges_apart.name);  // the last: what is wrong with a skip belongs to it
  s.ffn.balance_loss = s.ffn.router_z_loss = 0;
  return make_plan<float>(s, c, p.store,
                          {.mode = Mode::train,
                           .batch = p.sequences(),
                           .block = p.block(),
                           .loss = {p.sick.train.label_smoothing, p.sick.train.z_loss},
                           .loss_factor = p.faults.loss_factor},
                          pool, hooks);
}

}  // namespace

bool PathPlan::Gate::wants(std::string_view point, Dir dir) const {
  return dir == Dir::backward && (point == entrance || point.ends_with(".skip") || point.ends_with(".write"));
}

void PathPlan::Gate::at(std::string_view point, Dir, View<float> v, int shard) {
  if (point == entrance) {
    Grid<float>& to = parts[static_cast<std::size_t>(shard)];
    to = {v.rows, v.cols, {}};
    for (std::int64_t r = 0; r < v.rows; ++r) to.data.insert(to.data.end(), v.row(r), v.row(r) + v.cols);
  } else if (std::ranges::find(shut, point) != shut.end()) {
    for (std::int64_t r = 0; r < v.rows; ++r) std::fill_n(v.row(r), v.cols, 0.0f);
  }
}

PathPlan::PathPlan(Patient& p) : p_(p), plan_(plan_with_edges(p, pool_, hooks_)) {
  const auto placement = std::ranges::find(p.components.placement, p.spec.placement, &Placement::name);
  for (std::int64_t i = 0; i < p.spec.n_layer; ++i) {
    const auto point = [&](std::string_view end) { return block_point(i, end); };
    if (placement->parallel) {  // the second write stands on the first, and its skip is part of both ways
      around_.push_back({point(".attn.skip")});
      into_.push_back({point(".attn.write"), point(".ffn.write")});
      continue;
    }
    for (const std::string_view sub : {".attn", ".ffn"}) {
      around_.push_back({point(sub) + ".skip"});
      into_.push_back({point(sub) + ".write"});
    }
  }
}

Grid<float> PathPlan::gradient(const std::vector<bool>& through) {
  if (through.size() != around_.size())
    fail("[path_plan] {} choices for {} branches", through.size(), around_.size());
  Points shut;
  for (std::size_t i = 0; i < through.size(); ++i) {
    const Points& closed = through[i] ? around_[i] : into_[i];
    shut.insert(shut.end(), closed.begin(), closed.end());
  }
  return gradient_without(shut);
}

Grid<float> PathPlan::gradient_without(const Points& shut) {
  gate_.shut = shut;
  plan_.loss_and_grad(p_.x, p_.y, {0, 0});
  Grid<float> all;
  for (const Grid<float>& part : gate_.parts) {
    all.rows += part.rows, all.cols = part.cols;
    all.data.insert(all.data.end(), part.data.begin(), part.data.end());
  }
  return all;
}

}  // namespace plumb
