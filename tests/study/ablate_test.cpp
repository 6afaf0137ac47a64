// A part that does nothing is not needed, and what is left without a part is the model that never had it.
#include "plumb/study/ablate.h"

#include <gtest/gtest.h>

#include <cmath>

#include "plumb/base/error.h"
#include "plumb/study/held_out.h"
#include "plumb/train/validation.h"
#include "tests/support/small_run.h"
#include "tests/support/temp_dir.h"

namespace plumb::test {
namespace {

const Components& components() {
  static const Components c;
  return c;
}

const Corpus& text() {
  static const Corpus t = made_up_text();
  return t;
}

Config config_of(const std::vector<std::string>& set) {
  Config c = small_config();
  for (const std::string& s : set) set_value(c, s);
  return c;
}

// A model that has not been trained, but whose gains and biases are not where they start.
struct Model {
  explicit Model(const std::vector<std::string>& set, bool moved = true)
      : patient(config_of(set), components(), text()) {
    if (!moved) return;
    const Stream s = stream(5, "moved");
    std::uint64_t i = 0;
    for (float& w : patient.store.values())
      if (w != 0) w *= static_cast<float>(1 + 0.3 * s.normal(0, 0, i++));
  }
  Patient patient;
  ThreadPool pool{2};

  Ablation ablated(AblateOptions o = {.sequences = 8, .draws = 0}) { return ablate(patient, pool, o); }
  std::unique_ptr<HeldOut> held(std::int64_t n = 8, const std::set<std::string>& points = {}) {
    return std::make_unique<HeldOut>(patient, patient.spec, n, points, pool);
  }
  double loss(std::int64_t n = 8) {
    const auto h = held(n);
    return h->mean(h->losses());
  }
  // The weights of another model, where the names are the same.
  void take(const Model& other) {
    for (const ParamInfo& p : patient.store.layout().params)
      for (const ParamInfo& q : other.patient.store.layout().params)
        if (p.spec.name == q.spec.name)
          std::copy_n(other.patient.store.view(q).data, q.size(), patient.store.view(p).data);
  }
};

const AblatedPart& named(const Ablation& a, const std::string& name) {
  const auto at = std::ranges::find(a.parts, name, [](const AblatedPart& p) { return p.part.name; });
  if (at == a.parts.end()) throw std::runtime_error("no part " + name);
  return *at;
}

bool has(const Ablation& a, const std::string& name) {
  return std::ranges::any_of(a.parts, [&](const AblatedPart& p) { return p.part.name == name; });
}

TEST(Ablate, TheWholeLossIsTheValidationLoss) {
  for (const char* rows : {"window", "padded"}) {
    Model m({std::string("data.rows=") + rows});
    Validation v(m.patient.spec, components(), m.patient.store, m.patient.feed, m.pool);
    const auto h = m.held(m.patient.feed.val_rows());
    EXPECT_EQ(h->n_target(), static_cast<double>(m.patient.feed.val_targets()));
    EXPECT_NEAR(h->mean(h->losses()), v.loss(), 1e-5) << rows;
  }
}

TEST(Ablate, WhatWritesNothingAndGainsThatAreOneAreNotNeeded) {
  Model m({"init.scheme=zero_last"}, false);
  const Ablation a = m.ablated();
  for (const AblatedPart& p : a.parts) {
    if (p.part.kind == "positions" || p.part.kind == "final_norm" || p.part.kind == "output_projection")
      continue;
    ASSERT_TRUE(p.zero) << p.part.name;
    EXPECT_EQ(p.zero->delta.mean, 0) << p.part.name;
    EXPECT_EQ(p.zero->delta.high, 0) << p.part.name;
    EXPECT_EQ(p.mean.value_or(*p.zero).delta.mean, 0) << p.part.name;
  }
  EXPECT_NE(named(a, "final_norm").zero->delta.mean, 0);
}

TEST(Ablate, ParametersAreAsBefore) {
  Model m({});
  const std::string before = m.patient.store.hash();
  const Ablation a = m.ablated({.sequences = 4, .draws = 2, .slots = "3"});
  EXPECT_EQ(m.patient.store.hash(), before);
  for (const AblatedPart& p : a.parts) EXPECT_NE(p.zero->delta.mean, 0) << p.part.name;
}

TEST(Ablate, AllHeadsAreAttention) {
  Model m({});
  const std::string at = "blocks.1.attn";
  const auto h = m.held(8, {at + ".ctx", at + ".write"});
  std::vector<Replace> heads;
  for (std::int64_t i = 0; i < 4; ++i) heads.push_back({.point = at + ".ctx", .first = 8 * i, .n = 8});
  const Replace write{.point = at + ".write"};
  const auto without_heads = h->losses(heads), without_attention = h->losses(std::span(&write, 1));
  EXPECT_EQ(without_heads, without_attention);  // attention has no biases here
  EXPECT_NE(without_heads, h->losses());
  heads.pop_back();
  EXPECT_NE(h->losses(heads), without_attention);
}

TEST(Ablate, AConstantIsItsOwnMean) {
  Model m({});
  for (const char* name : {"blocks.0.ffn.out.weight", "blocks.0.attn.v.weight"}) {
    const View<float> w = m.patient.store.param(name);
    std::fill_n(w.data, w.size(), 0.0F);
  }
  const View<float> bias = m.patient.store.param("blocks.0.ffn.out.bias");
  for (std::int64_t j = 0; j < bias.cols; ++j) bias.data[j] = static_cast<float>(j % 5) - 1;
  const Ablation a = m.ablated();
  EXPECT_NEAR(named(a, "blocks.0.ffn").mean->delta.mean, 0, 1e-6);
  EXPECT_GT(std::abs(named(a, "blocks.0.ffn").zero->delta.mean), 1e-3);
  EXPECT_EQ(named(a, "blocks.0.attn.v").zero->delta.mean, 0);
}

// Each against a model that is built without the part, with the same weights.
void expect_without(const std::vector<std::string>& set, const std::string& part, const std::string& never) {
  SCOPED_TRACE(part + " " + never);
  Model with(set);
  for (const ParamInfo& p : with.patient.store.layout().params)  // so that attention is far from uniform
    if (p.spec.role == Role::q || p.spec.role == Role::k)
      for (float& w : std::span(with.patient.store.view(p).data, static_cast<std::size_t>(p.size()))) w *= 20;
  std::vector<std::string> fewer = set;
  fewer.push_back(never);
  Model without(fewer);
  without.take(with);
  const Ablation a = with.ablated();
  EXPECT_NEAR(named(a, part).zero->loss, without.loss(), 2e-6);
  EXPECT_GT(std::abs(named(a, part).zero->delta.mean), 1e-4);  // far more than what they differ by
}

TEST(Ablate, WhatIsLeftIsTheModelThatNeverHadThePart) {
  expect_without({}, "final_norm", "model.final_norm=false");
  expect_without({"model.residual=hyper_connections"}, "final_norm", "model.final_norm=false");
  expect_without({}, "positions", "model.position=none");
  expect_without({"model.position=rope"}, "positions", "model.position=none");
  expect_without({"model.position=alibi"}, "positions", "model.position=none");
  expect_without({"model.position=sinusoidal"}, "positions", "model.position=none");
}

TEST(Ablate, PositionsThatAreAllTheSameAreTheirMean) {
  Model m({});
  const View<float> table = m.patient.store.param("pos.weight");
  for (std::int64_t i = 1; i < table.rows; ++i) std::copy_n(table.row(0), table.cols, table.row(i));
  const AblatedPart positions = named(m.ablated(), "positions");
  EXPECT_NEAR(positions.mean->delta.mean, 0, 1e-6);
  EXPECT_GT(std::abs(positions.zero->delta.mean), 1e-5);
}

TEST(Ablate, NoOutputProjectionIsTheIdentity) {
  Model m({"model.n_layer=1"});
  const Ablation a = m.ablated();
  const View<float> o = m.patient.store.param("blocks.0.attn.o.weight");
  for (std::int64_t i = 0; i < o.rows; ++i)
    for (std::int64_t j = 0; j < o.cols; ++j) o.row(i)[j] = i == j ? 1.0F : 0.0F;
  EXPECT_NEAR(named(a, "blocks.0.attn.o").zero->loss, m.loss(), 2e-6);
}

TEST(Ablate, WithoutQueriesAndKeysAttentionIsUniform) {
  Model m({"model.n_layer=1"});
  const Ablation a = m.ablated();
  const View<float> q = m.patient.store.param("blocks.0.attn.q.weight");
  std::fill_n(q.data, q.size(), 0.0F);
  EXPECT_NEAR(named(a, "blocks.0.attn.qk").zero->loss, m.loss(), 2e-6);
  EXPECT_EQ(named(a, "blocks.0.attn.qk").mean->loss, named(a, "blocks.0.attn.qk").zero->loss);
}

TEST(Ablate, TheFirstOrderEstimateIsTheSlope) {
  Model m({"model.norm=rms", "model.norm_gain=plus_one"});
  const Ablation a = m.ablated({.sequences = 8, .draws = 1});
  constexpr double step = 1e-2;
  int n = 0;
  for (const AblatedPart& p : a.parts) {
    if (p.part.removed.empty()) continue;
    const std::vector<float> before(m.patient.store.values().begin(), m.patient.store.values().end());
    double loss[2];
    for (const int side : {0, 1}) {
      for (const Slice& s : p.part.removed) {
        const View<float> v = m.patient.store.param(s.param);
        const std::int64_t rows = s.n_row > 0 ? s.n_row : v.rows, cols = s.n_col > 0 ? s.n_col : v.cols;
        for (std::int64_t i = s.first_row; i < s.first_row + rows; ++i)
          for (std::int64_t j = s.first_col; j < s.first_col + cols; ++j) {
            const double off = s.to == Slice::To::one || (s.to == Slice::To::identity && i == j) ? 1 : 0;
            v.row(i)[j] +=
                static_cast<float>((side ? step : -step) * (off - static_cast<double>(v.row(i)[j])));
          }
      }
      loss[side] = m.loss();
      std::ranges::copy(before, m.patient.store.values().begin());
    }
    const double slope = std::abs(loss[1] - loss[0]) / (2 * step);
    EXPECT_NEAR(*p.proxies.grad_times_weight, slope, 0.02 * slope + 2e-4) << p.part.name;
    ++n;
  }
  EXPECT_GT(n, 20);
}

TEST(Ablate, DeadSlotsAreThoseThatNeverFire) {
  Model m({"model.ffn.kind=relu"}, false);
  const View<float> bias = m.patient.store.param("blocks.1.ffn.in.bias");
  for (const int slot : {3, 17, 40}) bias.data[slot] = -100;
  const Ablation a = m.ablated({.sequences = 8, .draws = 0, .slots = "dead"});
  const AblatedPart& dead = named(a, "blocks.1.ffn.slots.dead");
  ASSERT_EQ(dead.part.cuts.size(), 3U);
  EXPECT_EQ(dead.part.cuts[1].first, 17);
  EXPECT_EQ(dead.zero->delta.mean, 0);
  EXPECT_FALSE(has(a, "blocks.0.ffn.slots.dead"));
  ASSERT_EQ(a.remarks.size(), 1U);
  EXPECT_NE(a.remarks[0].find("block 0"), std::string::npos) << a.remarks[0];
}

TEST(Ablate, AllSlotsAreTheFfnButForItsBias) {
  Model m({"model.ffn.bias=false"});
  const Ablation a = m.ablated({.sequences = 8, .draws = 0, .slots = "64"});
  EXPECT_EQ(named(a, "blocks.1.ffn.slots.most_64").zero->loss, named(a, "blocks.1.ffn").zero->loss);
  const Ablation few = m.ablated({.sequences = 8, .draws = 2, .slots = "4"});
  EXPECT_LT(*named(few, "blocks.1.ffn.slots.least_4").proxies.activation,
            *named(few, "blocks.1.ffn.slots.most_4").proxies.activation);
}

TEST(Ablate, WhatCannotBeAsked) {
  Model m({});
  for (const char* slots : {"0", "65", "some", "4x", "-1"}) try {
      m.ablated({.sequences = 4, .draws = 0, .slots = slots});
      ADD_FAILURE() << slots;
    } catch (const Error& e) {
      EXPECT_EQ(e.exit_code, 2);
      EXPECT_NE(std::string(e.what()).find("--slots"), std::string::npos);
    }
  try {
    m.ablated({.sequences = 4, .draws = 0, .interrupted = after(20)});
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_EQ(e.exit_code, 130);
  }
  std::ranges::fill(m.patient.store.values(), std::nanf(""));
  EXPECT_THROW(m.ablated(), Error);
}

TEST(Ablate, ATrainedModelNeedsItsPartsAndTheIntervalHoldsTheDifference) {
  const TempDir dir;
  run(small_config(), dir / "run");
  Patient p(small_config(), components(), text(), dir / "run");
  ThreadPool pool(2);
  const Ablation a = ablate(p, pool, {.sequences = 32, .draws = 2});
  EXPECT_EQ(a.step, 60);
  EXPECT_LT(a.loss, a.baselines.unigram);
  const Effect& e = *named(a, "blocks.0.ffn").zero;
  EXPECT_NEAR(e.delta.mean, e.loss - a.loss, 1e-9);
  EXPECT_GT(e.delta.low, 0);
  EXPECT_LT(e.delta.low, e.delta.mean);
  ASSERT_FALSE(a.ranks.empty());
  EXPECT_EQ(a.ranks.front().over, "sub_layers");
  EXPECT_EQ(a.ranks.front().with_zero.n, 4U);
}

class EveryModel : public testing::TestWithParam<std::vector<std::string>> {};

TEST_P(EveryModel, CanBeAblated) {
  Model m(GetParam());
  const std::string before = m.patient.store.hash();
  const Ablation a = m.ablated({.sequences = 4, .draws = 1, .slots = "2"});
  EXPECT_EQ(m.patient.store.hash(), before);
  EXPECT_TRUE(has(a, "blocks.1.attn") && has(a, "blocks.1.ffn") && has(a, "blocks.0.attn.head.3"));
  for (const AblatedPart& p : a.parts) {
    ASSERT_TRUE(p.zero) << p.part.name;
    EXPECT_TRUE(std::isfinite(p.zero->delta.mean)) << p.part.name;
    EXPECT_TRUE(!p.proxies.perturbation || std::isfinite(*p.proxies.perturbation)) << p.part.name;
  }
}

using Settings = std::vector<std::string>;
INSTANTIATE_TEST_SUITE_P(
    Ablate, EveryModel,
    testing::Values(
        Settings{"model.placement=parallel"}, Settings{"model.placement=post"},
        Settings{"model.placement=sandwich"}, Settings{"model.ffn.kind=moe", "model.ffn.n_expert=4"},
        Settings{"model.residual=hyper_connections"}, Settings{"model.residual=none"},
        Settings{"model.residual=rezero", "model.norm=none"}, Settings{"model.norm=batch"},
        Settings{"model.position=t5"}, Settings{"model.position=rope", "model.n_kv_head=2"},
        Settings{"model.weight_param=weight_norm"}, Settings{"model.norm=dyt", "model.ffn.kind=swiglu"},
        Settings{"model.attention.qk_norm=rms", "model.attention.bias=true"},
        Settings{"model.attention.qk_projection=false", "model.attention.value_projection=false",
                 "model.attention.output_projection=false"},
        Settings{"model.position=none", "data.rows=padded"}, Settings{"train.precision=bf16_pure"},
        Settings{"init.scheme=fixup", "model.norm=none"}, Settings{"train.dropout=0.2"},
        Settings{"fault.inject=no_final_norm"}, Settings{"fault.inject=dropout_in_eval"},
        Settings{"fault.inject=batchnorm_in_eval", "model.norm=batch"}));

}  // namespace
}  // namespace plumb::test
