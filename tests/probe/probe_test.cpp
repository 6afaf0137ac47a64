// Every probe's number against plain loops over the raw tensors, caught by a hook beside it; and what holds
// for all of them: the same bits whatever the threads, nothing allocated, no number where nothing was seen.
#include "plumb/probe/probe.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "plumb/optim/optim.h"
#include "tests/support/allocations.h"
#include "tests/support/decoder_rig.h"
#include "tests/support/error_text.h"

namespace plumb {
namespace {

constexpr std::int64_t batch = 7, block = 16;
const PlanOptions options{
    .batch = batch, .block = block, .shard_tokens = 32};  // shards of 2 sequences; the last has 1

/// Keeps copies of the tensors it looks at.
class Catcher final : public Hook<float> {
 public:
  bool wants(std::string_view point, Dir dir) const override {
    if (dir == Dir::backward) return point.ends_with(".out") && index_of(point, "blocks.{i}.out") >= 0;
    return point == "logits" || index_of(point, "blocks.{i}.out") >= 0 ||
           index_of(point, "blocks.{i}.attn.norm_in") >= 0 || index_of(point, "blocks.{i}.attn.q") >= 0 ||
           index_of(point, "blocks.{i}.attn.k") >= 0;
  }
  void begin(int n_shard) override { shards_.assign(static_cast<std::size_t>(n_shard), {}); }
  void at(std::string_view point, Dir dir, View<float> v, int shard) override {
    auto& rows = shards_[static_cast<std::size_t>(shard)]
                        [std::string(dir == Dir::backward ? "d " : "") + std::string(point)];
    for (std::int64_t i = 0; i < v.rows; ++i) rows.emplace_back(v.row(i), v.row(i) + v.cols);
  }
  /// Rows of the whole batch: position t of sequence s is row s * block + t.
  std::vector<std::vector<double>> rows(const std::string& name) const {
    std::vector<std::vector<double>> all;
    for (const auto& shard : shards_)
      for (const auto& row : shard.at(name)) all.push_back(row);
    EXPECT_EQ(all.size(), static_cast<std::size_t>(batch * block)) << name;
    return all;
  }

 private:
  std::vector<std::map<std::string, std::vector<std::vector<double>>>> shards_;
};

using Rows = std::vector<std::vector<double>>;

double std_of(const Rows& rows) {
  double n = 0, mean = 0, square = 0;
  for (const auto& row : rows)
    for (double x : row) mean += x, ++n;
  mean /= n;
  for (const auto& row : rows)
    for (double x : row) square += (x - mean) * (x - mean);
  return std::sqrt(square / n);
}

std::vector<double> softmax(const std::vector<double>& z) {
  double sum = 0;
  std::vector<double> p;
  for (double x : z) sum += std::exp(x);
  for (double x : z) p.push_back(std::exp(x) / sum);
  return p;
}

double adjacent_kl_of(const Rows& logits) {
  double sum = 0, n = 0;
  for (std::size_t s = 0; s < batch; ++s)
    for (std::size_t t = 0; t + 1 < block; ++t) {
      const auto before = softmax(logits[s * block + t]), after = softmax(logits[s * block + t + 1]);
      for (std::size_t j = 0; j < after.size(); ++j) sum += after[j] * std::log(after[j] / before[j]);
      ++n;
    }
  return sum / n;
}

struct AttentionNumbers {
  double entropy = 0, largest = -1e300;
};
AttentionNumbers attention_of(const Rows& q, const Rows& k, std::size_t n_head, std::size_t d_head,
                              double scale) {
  AttentionNumbers a;
  double n = 0;
  for (std::size_t s = 0; s < batch; ++s)
    for (std::size_t h = 0; h < n_head; ++h)
      for (std::size_t t = 0; t < block; ++t) {
        std::vector<double> scores;
        for (std::size_t j = 0; j <= t; ++j) {
          double dot = 0;
          for (std::size_t d = h * d_head; d < (h + 1) * d_head; ++d)
            dot += q[s * block + t][d] * k[s * block + j][d];
          scores.push_back(scale * dot);
          a.largest = std::max(a.largest, scale * dot);
        }
        if (t == 0) continue;
        double entropy = 0;
        for (double p : softmax(scores)) entropy -= p * std::log(p);
        a.entropy += entropy / std::log(static_cast<double>(t + 1));
        ++n;
      }
  a.entropy /= n;
  return a;
}

/// A run of two steps of all probes, the second one's row; large weights, so that attention is not even.
struct Observed {
  DecoderSpec spec = test::small_spec();
  std::vector<std::unique_ptr<Probe>> probes;
  Catcher catcher;
  StepRow row;
  std::vector<float> before, after, grads;
  ParamLayout layout;

  explicit Observed(int threads, int recompute = 0) {
    spec.init.std = 0.3;
    std::vector<Hook<float>*> hooks{&catcher};
    for (const ProbeEntry& e : probe_table()) hooks.push_back(probes.emplace_back(e.make(spec)).get());
    PlanOptions o = options;
    o.recompute = recompute;
    test::DecoderRig<float> rig(spec, o, threads, hooks);
    const auto optimizer =
        choose_optimizer(optim_table(), "adamw").make<float>(rig.store.layout(), {}, threads);
    layout = rig.store.layout();
    for (std::int64_t step = 0; step < 2; ++step) {
      rig.step({step, step * batch});
      before.assign(rig.store.values().begin(), rig.store.values().end());
      grads.assign(rig.plan.grads().begin(), rig.plan.grads().end());
      optimizer->update(rig.store, rig.plan.grads(), rig.plan.grad_norm(), {1e-2, 1}, rig.pool);
      rig.plan.commit();
      after.assign(rig.store.values().begin(), rig.store.values().end());
      for (const auto& p : probes)
        if (p->watches_update()) p->updated(layout, before, after, grads);
    }
    for (const auto& p : probes) p->write(row);
  }
  std::vector<double> layers(const char* metric) const {
    const auto* v = row.find_layers(metric);
    EXPECT_NE(v, nullptr) << metric;
    EXPECT_TRUE(v == nullptr || v->size() == static_cast<std::size_t>(spec.n_layer)) << metric;
    return v ? *v : std::vector<double>(static_cast<std::size_t>(spec.n_layer), std::nan(""));
  }
  double scalar(const char* metric) const {
    const double* v = row.find(metric);
    EXPECT_NE(v, nullptr) << metric;
    return v ? *v : std::nan("");
  }
};

const Observed& observed() {
  static const Observed o(2);
  return o;
}

#define EXPECT_CLOSE(got, want, relative) EXPECT_NEAR(got, want, std::abs(want) * (relative))

TEST(Probes, MeasureTheStreamTheGradientAndTheNormsInput) {
  const Observed& o = observed();
  for (int i = 0; i < o.spec.n_layer; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const std::string name = "blocks." + std::to_string(i);
    EXPECT_CLOSE(o.layers("act_std")[at], std_of(o.catcher.rows(name + ".out")), 1e-12);
    EXPECT_CLOSE(o.layers("grad_std")[at], std_of(o.catcher.rows("d " + name + ".out")), 1e-12);
    EXPECT_CLOSE(o.layers("norm_in_std")[at], std_of(o.catcher.rows(name + ".attn.norm_in")), 1e-12);
  }
}

TEST(Probes, MeasureTheLogits) {
  const Observed& o = observed();
  const Rows logits = o.catcher.rows("logits");
  EXPECT_CLOSE(o.scalar("logit_std"), std_of(logits), 1e-12);
  EXPECT_CLOSE(o.scalar("adjacent_kl"), adjacent_kl_of(logits), 1e-9);
  EXPECT_GT(o.scalar("adjacent_kl"), 0.1);  // there is something to measure
}

// Scores again from queries and keys: in float they are made by another order of sums.
TEST(Probes, MeasureAttention) {
  const Observed& o = observed();
  const auto n_head = static_cast<std::size_t>(o.spec.n_head),
             d_head = static_cast<std::size_t>(o.spec.d_head);
  for (int i = 0; i < o.spec.n_layer; ++i) {
    const std::string name = "blocks." + std::to_string(i) + ".attn";
    const AttentionNumbers want = attention_of(o.catcher.rows(name + ".q"), o.catcher.rows(name + ".k"),
                                               n_head, d_head, 1 / std::sqrt(static_cast<double>(d_head)));
    EXPECT_CLOSE(o.layers("attn_entropy")[static_cast<std::size_t>(i)], want.entropy, 1e-5);
    EXPECT_CLOSE(o.layers("attn_max_logit")[static_cast<std::size_t>(i)], want.largest, 1e-5);
    EXPECT_LT(want.entropy, 0.97);  // not the even attention of small weights
  }
}

TEST(Probes, MeasureWeightsAndTheirUpdate) {
  const Observed& o = observed();
  for (int i = 0; i < o.spec.n_layer; ++i) {
    double size = 0, moved = 0, n = 0;
    for (const char* matrix : {"attn.q", "attn.k", "attn.v", "attn.o", "ffn.in", "ffn.out"}) {
      const ParamInfo& p = o.layout.find("blocks." + std::to_string(i) + "." + matrix + ".weight");
      for (std::int64_t e = p.offset; e < p.offset + p.size(); ++e) {
        const double b = o.before[static_cast<std::size_t>(e)], a = o.after[static_cast<std::size_t>(e)];
        size += b * b, moved += (a - b) * (a - b), ++n;
      }
    }
    EXPECT_CLOSE(o.layers("weight_rms")[static_cast<std::size_t>(i)], std::sqrt(size / n), 1e-12);
    EXPECT_CLOSE(o.layers("update_ratio")[static_cast<std::size_t>(i)], std::sqrt(moved) / std::sqrt(size),
                 1e-12);
  }
}

TEST(Probes, ABlockWithoutWeightsAndAScaledOne) {
  ParamLayout layout;
  const Dim eight{'C', 8}, three{'F', 3};
  layout.params = {{{.name = "embed.weight", .shape = {three, eight}}, {}, 0},
                   {{.name = "blocks.0.a.weight", .shape = {three, eight}, .layer = 0}, {}, 24},
                   {{.name = "blocks.0.a.bias", .shape = {three}, .layer = 0}, {}, 48},
                   {{.name = "blocks.0.b.weight", .shape = {eight, three}, .layer = 0}, {}, 51}};
  const std::vector<float> grads(75, 1);
  std::vector<float> before(75, 2), after(75, 3);
  for (std::size_t i = 24; i < 48; ++i) after[i] = 2;  // only b moves, by half: sqrt(24 · 1) / sqrt(48 · 4)
  DecoderSpec s;
  s.n_layer = 2;
  StepRow row;
  for (const ProbeEntry& e : probe_table()) {
    const auto p = e.make(s);
    p->updated(layout, before, after, grads);
    p->write(row);
  }
  EXPECT_NEAR(row.find_layers("update_ratio")->at(0), std::sqrt(0.125), 1e-15);
  EXPECT_EQ(row.find_layers("weight_rms")->at(0), 2);
  EXPECT_TRUE(std::isnan(row.find_layers("update_ratio")->at(1)));
  EXPECT_TRUE(std::isnan(row.find_layers("weight_rms")->at(1)));
}

TEST(Probes, GiveTheSameBitsOnAnyNumberOfThreads) {
  const Observed& two = observed();
  for (const int threads : {1, 3, 4}) {
    const Observed other(threads);
    EXPECT_EQ(other.row.values, two.row.values) << threads;
    EXPECT_EQ(other.row.layers, two.row.layers) << threads;
  }
  const Observed recomputing(2, 1);
  EXPECT_EQ(recomputing.row.values, two.row.values);
  EXPECT_EQ(recomputing.row.layers, two.row.layers);
}

TEST(Probes, WriteOnlyMetricsOfTheTraceEachOnce) {
  std::map<std::string_view, bool> known;
  for (const Metric& m : trace_metrics) known[m.name] = m.per_layer;
  std::set<std::string> seen;
  for (const auto& [name, value] : observed().row.values) {
    EXPECT_TRUE(known.contains(name) && !known[name]) << name;
    EXPECT_TRUE(seen.insert(name).second) << name;
  }
  for (const auto& [name, values] : observed().row.layers) {
    EXPECT_TRUE(known.contains(name) && known[name]) << name;
    EXPECT_TRUE(seen.insert(name).second) << name;
  }
  for (const auto& p : observed().probes) {
    StepRow row;
    p->write(row);
    EXPECT_FALSE(row.values.empty() && row.layers.empty());
  }
}

// All attention rows of a block of one see one key, and no probe has seen an update: not NaN, which would be
// a finding.
TEST(Probes, LeaveOutWhatWasNotSeen) {
  DecoderSpec s = test::small_spec();
  s.block_size = 1;
  std::vector<std::unique_ptr<Probe>> probes;
  std::vector<Hook<float>*> hooks;
  for (const ProbeEntry& e : probe_table()) hooks.push_back(probes.emplace_back(e.make(s)).get());
  StepRow nothing;
  for (const auto& p : probes) p->write(nothing);
  EXPECT_TRUE(nothing.values.empty() && nothing.layers.empty());

  test::DecoderRig<float> rig(s, {.batch = 4, .block = 1}, 1, hooks);
  rig.step();
  StepRow row;
  for (const auto& p : probes) p->write(row);
  EXPECT_NE(row.find_layers("attn_max_logit"), nullptr);
  EXPECT_NE(row.find("logit_std"), nullptr);
  EXPECT_EQ(row.find_layers("attn_entropy"), nullptr);
  EXPECT_EQ(row.find("adjacent_kl"), nullptr);
  EXPECT_EQ(row.find_layers("update_ratio"), nullptr);
  EXPECT_EQ(row.find_layers("weight_rms"), nullptr);
}

// A step without a look forgets the update before it.
TEST(Probes, AnUpdateCountsForItsOwnStepOnly) {
  for (const ProbeEntry& e : probe_table()) {
    const auto p = e.make(observed().spec);
    p->updated(observed().layout, observed().before, observed().after, observed().grads);
    p->begin(1);
    StepRow row;
    p->write(row);
    EXPECT_TRUE(row.values.empty() && row.layers.empty()) << e.name;
  }
}

TEST(Probes, NaNIsWrittenAsWhatItIs) {
  std::vector<float> data(16, 1);
  data[9] = std::nanf("");
  DecoderSpec s;
  s.n_layer = 2, s.block_size = 4;
  for (const ProbeEntry& e : probe_table()) {
    const auto p = e.make(s);
    for (const Dir dir : {Dir::forward, Dir::backward})
      for (const char* point : {"logits", "blocks.1.out", "blocks.1.attn.norm_in", "blocks.1.attn.entropy",
                                "blocks.1.attn.max_logit"})
        if (p->wants(point, dir)) {
          p->begin(2);
          p->at(point, dir, {data.data(), 4, 4, 4}, 0);
          data[9] = 1;  // a shard without NaN after it does not cover it
          p->at(point, dir, {data.data(), 4, 4, 4}, 1);
          data[9] = std::nanf("");
          p->merge(2);
          StepRow row;
          p->write(row);
          const double got = row.values.empty() ? row.layers.at(0).second.at(1) : row.values.at(0).second;
          EXPECT_TRUE(std::isnan(got)) << e.name << " at " << point;
        }
  }
}

TEST(Probes, AnotherBlockThanThePlansIsSaid) {
  std::vector<float> data(40, 1);
  DecoderSpec s;
  s.block_size = 16;
  for (const ProbeEntry& e : probe_table()) {
    if (e.name != "adjacent_kl" && e.name != "entropy") continue;
    const auto p = e.make(s);
    p->begin(1);
    const char* point = e.name == "entropy" ? "blocks.0.attn.entropy" : "logits";
    EXPECT_NE(test::error_text([&] {
                p->at(point, Dir::forward, {data.data(), 10, 4, 4}, 0);
              }).find("10 rows are not whole sequences of 16"),
              std::string::npos);
  }
}

TEST(Probes, OnlyTheRowIsAllocated) {
  DecoderSpec s = test::small_spec();
  std::vector<std::unique_ptr<Probe>> probes;
  std::vector<Hook<float>*> hooks;
  for (const ProbeEntry& e : probe_table()) hooks.push_back(probes.emplace_back(e.make(s)).get());
  test::DecoderRig<float> rig(s, options, 2, hooks);
  const std::vector<float> before(rig.store.values().begin(), rig.store.values().end());
  auto step = [&] {
    rig.step();
    for (const auto& p : probes)
      if (p->watches_update()) p->updated(rig.store.layout(), before, rig.store.values(), rig.plan.grads());
  };
  step();
  EXPECT_EQ(test::allocations_of_ours([&] {
              for (int i = 0; i < 3; ++i) step();
            }),
            0);
}

TEST(Probes, KnowTheirPoints) {
  EXPECT_EQ(index_of("blocks.3.out", "blocks.{i}.out"), 3);
  EXPECT_EQ(index_of("blocks.12.attn.norm_in", "blocks.{i}.attn.norm_in"), 12);
  EXPECT_EQ(index_of("logits", "logits"), 0);
  for (const char* other :
       {"blocks.3.attn.out", "blocks..out", "blocks.out", "blocks.3x.out", "blocks.3", "logits"})
    EXPECT_EQ(index_of(other, "blocks.{i}.out"), -1) << other;
  EXPECT_EQ(index_of("logits.x", "logits"), -1);
  EXPECT_EQ(index_of("blocks.-1.out", "blocks.{i}.out"), -1);
}

}  // namespace
}  // namespace plumb
