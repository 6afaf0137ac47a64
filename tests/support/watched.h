// A run of a few steps with every probe, and beside them what passed at every point.
#pragma once
#include <gtest/gtest.h>

#include <map>

#include "plumb/optim/optim.h"
#include "plumb/probe/probe.h"
#include "tests/support/decoder_rig.h"

namespace plumb::test {

constexpr std::int64_t batch = 7, block = 16;
inline const PlanOptions options{
    .batch = batch, .block = block, .shard_tokens = 32};  // 2 sequences; the last has 1

using Row = std::vector<double>;
using Rows = std::vector<Row>;

/// Keeps copies of what passes at every point, statistics left out.
class Catcher final : public Hook<float> {
 public:
  bool wants(std::string_view point, Dir dir) const override {
    return dir == Dir::forward || index_of(point, "blocks.{i}.out") >= 0;
  }
  void begin(int n_shard) override { shards_.assign(static_cast<std::size_t>(n_shard), {}); }
  void at(std::string_view point, Dir dir, View<float> v, int shard) override {
    Rows& rows = shards_[static_cast<std::size_t>(shard)]
                        [std::string(dir == Dir::backward ? "d " : "") + std::string(point)];
    for (std::int64_t i = 0; i < v.rows; ++i) rows.emplace_back(v.row(i), v.row(i) + v.cols);
  }
  bool has(const std::string& name) const { return shards_.at(0).contains(name); }
  Rows rows(const std::string& name) const {
    Rows all;
    for (const auto& shard : shards_)
      for (const Row& row : shard.at(name)) all.push_back(row);
    return all;
  }

 private:
  std::vector<std::map<std::string, Rows>> shards_;
};

/// A run of a few steps with every probe; rows of all of them.
struct Watched {
  DecoderSpec spec;
  std::vector<std::unique_ptr<Probe>> probes;
  Catcher catcher;
  std::vector<StepRow> rows;
  std::vector<Rows> pre;  // of block 0, by step
  std::vector<float> before, after, grads;
  ParamLayout layout;

  explicit Watched(DecoderSpec s, int threads = 2, int recompute = 0, int steps = 3) : spec(std::move(s)) {
    std::vector<Hook<float>*> hooks{&catcher};
    for (const ProbeEntry& e : probe_table()) hooks.push_back(probes.emplace_back(e.make(spec)).get());
    PlanOptions o = options;
    o.recompute = recompute;
    test::DecoderRig<float> rig(spec, o, threads, hooks);
    const auto optimizer =
        choose_optimizer(optim_table(), "adamw").make<float>(rig.store.layout(), {}, threads);
    layout = rig.store.layout();
    for (std::int64_t step = 0; step < steps; ++step) {
      rig.step({step, step * batch});
      before.assign(rig.store.values().begin(), rig.store.values().end());
      grads.assign(rig.plan.grads().begin(), rig.plan.grads().end());
      optimizer->update(rig.store, rig.plan.grads(), rig.plan.grad_norm(), {3e-2, 1}, rig.pool);
      rig.plan.commit();
      after.assign(rig.store.values().begin(), rig.store.values().end());
      StepRow& row = rows.emplace_back();
      for (const auto& p : probes) {
        if (p->watches_update()) p->updated(layout, before, after, grads);
        p->write(row);
      }
      if (catcher.has("blocks.0.ffn.pre")) pre.push_back(catcher.rows("blocks.0.ffn.pre"));
    }
  }
  double layer(const char* metric, int i) const {
    const auto* v = rows.back().find_layers(metric);
    EXPECT_TRUE(v && v->size() == static_cast<std::size_t>(spec.n_layer)) << metric;
    return v ? v->at(static_cast<std::size_t>(i)) : std::nan("");
  }
  double scalar(const char* metric) const {
    const double* v = rows.back().find(metric);
    EXPECT_NE(v, nullptr) << metric;
    return v ? *v : std::nan("");
  }
  Rows at(int i, const std::string& point) const {
    return catcher.rows("blocks." + std::to_string(i) + "." + point);
  }
  Rows grad_at(int i) const { return catcher.rows("d blocks." + std::to_string(i) + ".out"); }
  /// Elements of all parameters of block i that `wanted` says yes to.
  template <class F>
  std::vector<std::size_t> elements(int i, const F& wanted) const {
    std::vector<std::size_t> all;
    for (const ParamInfo& p : layout.params)
      if (p.spec.layer == i && wanted(p.spec.name))
        for (std::int64_t e = p.offset; e < p.offset + p.size(); ++e)
          all.push_back(static_cast<std::size_t>(e));
    return all;
  }
};

}  // namespace plumb::test
