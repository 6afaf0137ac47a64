// What each fault of the graph does, as derived from its definition.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "plumb/tensor/rounding.h"
#include "tests/fault/rig.h"

namespace plumb {
namespace {

using namespace test;

TEST(NoResidual, TakesTheSkipAway) {
  EXPECT_TRUE(are(with("no_residual", 0.25)["blocks.0.attn.skip"], healthy()["blocks.0.in"], 0.75));
  // All of it: the model is the one whose residual rule is "none".
  EXPECT_NEAR(with("no_residual").loss, healthy({"model.residual=none"}).loss, 1e-12);
}

TEST(SkipAfterNorm, CarriesTheNormOn) {
  const Pass p = with("skip_after_norm");
  EXPECT_TRUE(are(p["blocks.0.attn.skip"], p["blocks.0.attn.norm"]));
  EXPECT_TRUE(are(p["blocks.1.ffn.skip"], p["blocks.1.ffn.norm"]));
}

TEST(NormOnIdentityPath, NormalisesTheStream) {
  const Pass p = with("norm_on_identity_path"), half = with("norm_on_identity_path", 0.5);
  for (const char* point : {"blocks.0.mid", "blocks.0.out", "blocks.1.mid", "blocks.1.out"})
    for (const auto& row : p[point]) EXPECT_NEAR(moments(row).mean, 0, 1e-12);
  for (const auto& row : p["blocks.1.mid"]) EXPECT_NEAR(moments(row).var, 1, 1e-3);
  EXPECT_TRUE(are(half["blocks.0.out"], p["blocks.0.out"]));
  EXPECT_GT(std::abs(moments(half["blocks.1.out"][0]).var - 1), 1e-3);
}

TEST(NoFinalNorm, HandsTheStreamToTheHead) {
  const Pass p = with("no_final_norm");
  EXPECT_TRUE(are(p["final_norm"], p["blocks.1.out"]));
}

TEST(OutputNormalised, BoundsTheLossFromBelow) {
  const Pass p = with("output_normalised", 1, {"init.std=1.0"});
  for (const auto& row : p["logits"]) EXPECT_NEAR(std::accumulate(row.begin(), row.end(), 0.0), 1, 1e-12);
  EXPECT_GE(p.loss, std::log(1 + 60 / std::exp(1.0)));
}

TEST(NormWrongAxis, CentresEachFeatureOverTheSequence) {
  const Pass p = with("norm_wrong_axis");
  for (std::size_t j = 0; j < 32; ++j) {
    double sum = 0;
    for (std::size_t t = 0; t < 16; ++t) sum += p["blocks.0.attn.norm"][t][j];
    EXPECT_NEAR(sum, 0, 1e-10);
  }
}

// The first position sees itself alone: its context is the value of the head that it meets.
TEST(KvHeadMapping, MeetsHeadsModuloTheirNumber) {
  const std::vector<std::string> set = {"model.n_kv_head=2"};
  const Pass p = with("kv_head_mapping", 1, set), h = healthy(set);
  const auto met = [](const Pass& pass, std::size_t head) {
    const auto &ctx = pass["blocks.0.attn.ctx"][0], &v = pass["blocks.0.attn.v"][0];
    for (std::size_t kv = 0; kv < 2; ++kv)
      if (std::abs(ctx[head * 8] - v[kv * 8]) < 1e-12 && std::abs(ctx[head * 8 + 7] - v[kv * 8 + 7]) < 1e-12)
        return kv;
    return std::size_t{99};
  };
  for (std::size_t head = 0; head < 4; ++head) {
    EXPECT_EQ(met(h, head), head / 2);
    EXPECT_EQ(met(p, head), head % 2);
  }
}

TEST(NormInverted, MultipliesByTheVariance) {
  const Pass p = with("norm_inverted"), h = healthy();
  for (std::size_t i = 0; i < 32; ++i)
    EXPECT_TRUE(are(p["blocks.0.attn.norm"][i], h["blocks.0.attn.norm"][i], moments(h["embed"][i]).var));
}

TEST(NormEpsLarge, LeavesSmallSignalsSmall) {
  const Pass p = with("norm_eps_large");
  const RowMoments in = moments(p["embed"][3]), out = moments(p["blocks.0.attn.norm"][3]);
  EXPECT_NEAR(out.var, in.var / (in.var + 1), 1e-12);
}

TEST(NormEpsLost, IsZeroInFp16) {
  const Config c = sick("norm_eps_lost");
  EXPECT_EQ(to_fp16(static_cast<float>(c.model.norm_eps)), 0.0F);
  EXPECT_EQ(c.train.norm_reduce, "storage");
}

TEST(NormGainConvention, StartsGainsAtZero) {
  EXPECT_TRUE(
      are(with("norm_gain_convention").params.at("blocks.0.attn.norm.gamma"), std::vector<double>(32, 0.0)));
  EXPECT_TRUE(
      are(with("norm_gain_convention", 1, {"model.norm_gain=plus_one"}).params.at("blocks.0.attn.norm.w"),
          std::vector<double>(32, 1.0)));
}

TEST(ResidualGrowth, WritesTenTimesAsMuch) {
  EXPECT_TRUE(are(with("residual_growth")["blocks.0.attn.write"], healthy()["blocks.0.attn.write"], 10));
}

TEST(ResidualScaleWrong, DampsTwiceOrNotAtAll) {
  const char* w = "blocks.1.ffn.out.weight";
  EXPECT_TRUE(are(with("residual_scale_wrong").params.at(w), healthy().params.at(w), 0.5));  // (2 x 2)^(-1/2)
  EXPECT_TRUE(are(with("residual_scale_wrong", -1).params.at(w),
                  healthy({"init.residual_scale=false"}).params.at(w)));
  EXPECT_TRUE(are(with("residual_scale_wrong").params.at("blocks.1.ffn.in.weight"),
                  healthy().params.at("blocks.1.ffn.in.weight")));
}

TEST(InitTooLarge, DrawsTenTimesAsMuch) {
  for (const char* w : {"embed.weight", "blocks.0.attn.q.weight", "blocks.1.ffn.out.weight"})
    EXPECT_TRUE(are(with("init_too_large").params.at(w), healthy().params.at(w), 10));
}

TEST(InitTooSmall, IsBelowTheRootOfEps) {
  const Pass p = with("init_too_small");
  EXPECT_TRUE(are(p.params.at("embed.weight"), healthy().params.at("embed.weight"), 0.01));
  EXPECT_LT(moments(p["embed"][0]).var, p.spec.norm_eps);
}

TEST(HeadZero, StaysZero) {
  const Pass p = with("head_zero");
  for (const auto& row : p["logits"]) EXPECT_TRUE(are(row, std::vector<double>(61, 0.0)));
  EXPECT_NEAR(p.loss, std::log(61), 1e-12);
  EXPECT_EQ(p.rules.at("head.weight").lr, 0);
}

TEST(TiedEmbeddingBroken, HasTwoMatricesUnderATiedConfig) {
  EXPECT_TRUE(with("tied_embedding_broken").params.contains("head.weight"));
  EXPECT_FALSE(healthy().params.contains("head.weight"));
  EXPECT_TRUE(*sick("tied_embedding_broken").model.tied_embeddings);
}

TEST(DeadFfn, SlotsDoNotFireAndDoNotLearn) {
  const Pass p = with("dead_ffn", 0.25), h = healthy();
  for (std::size_t i = 0; i < 32; ++i)
    for (std::size_t j = 0; j < 64; ++j)
      EXPECT_EQ(p["blocks.0.ffn.act"][i][j], j < 16 ? 0 : h["blocks.0.ffn.act"][i][j]);
  const auto& g = p.grads.at("blocks.0.ffn.in.weight");  // (64, 32)
  EXPECT_TRUE(std::all_of(g.begin(), g.begin() + 16 * 32, [](double x) { return x == 0; }));
  EXPECT_TRUE(std::any_of(g.begin() + 16 * 32, g.begin() + 17 * 32, [](double x) { return x != 0; }));
}

TEST(NoOutputProjection, WritesTheHeads) {
  const Pass p = with("no_output_projection");
  EXPECT_FALSE(p.params.contains("blocks.0.attn.o.weight"));
  EXPECT_TRUE(are(p["blocks.0.attn.out"], p["blocks.0.attn.ctx"]));
}

TEST(AttentionUnscaled, HasScoresThatAreTooLarge) {
  EXPECT_TRUE(are(with("attention_unscaled")["blocks.0.attn.q"], healthy()["blocks.0.attn.q"], std::sqrt(8)));
  EXPECT_NEAR(with("attention_unscaled").loss, healthy({"model.attention.scale=none"}).loss, 1e-12);
}

TEST(AttentionOverscaled, HasScoresThatAreTooSmall) {
  EXPECT_TRUE(
      are(with("attention_overscaled")["blocks.0.attn.q"], healthy()["blocks.0.attn.q"], 1 / std::sqrt(8)));
}

TEST(AttentionLogitsExploding, LetsQueriesAndKeysRun) {
  const Pass p = with("attention_logits_exploding");
  EXPECT_EQ(p.rules.at("blocks.0.attn.q.weight").lr, 20);
  EXPECT_EQ(p.rules.at("blocks.1.attn.k.weight").decay, 0);
  EXPECT_EQ(p.rules.at("blocks.0.attn.v.weight").lr, 1);
}

// Of the first sequence: does position `at` change when the token at `changed` does?
bool sees(const std::string& fault, double strength, std::int64_t at, std::int64_t changed) {
  const Config c = config_with({fault}, strength);
  const Pass a(c), b(c, [&](Tokens&t) { t.x[static_cast<std::size_t>(changed)] ^= 1; });
  return a["logits"][static_cast<std::size_t>(at)] != b["logits"][static_cast<std::size_t>(at)];
}

TEST(CausalLeak, ShowsAsManyPositionsAsItSays) {
  // Two layers: twice as far.
  EXPECT_TRUE(sees("causal_leak", 1, 8, 10));
  EXPECT_FALSE(sees("causal_leak", 1, 8, 11));
  EXPECT_TRUE(sees("causal_leak", 3, 8, 14));
  EXPECT_FALSE(sees("causal_leak", 3, 8, 15));
}

TEST(MaskValueFinite, ShowsEverything) {
  EXPECT_TRUE(sees("mask_value_finite", 1, 0, 15));
  EXPECT_EQ(with("mask_value_finite", 0.1).spec.flaws.mask_value, -9);
  EXPECT_FALSE(sees("head_zero", 1, 0, 15));  // the way of looking can say no
}

TEST(PositionMissing, HasNoTable) { EXPECT_FALSE(with("position_missing").params.contains("pos.weight")); }

// The rows of the table that got a gradient.
std::vector<std::int64_t> rows_read(const Pass& p) {
  std::vector<std::int64_t> read;
  const auto& g = p.grads.at("pos.weight");  // (16, 32)
  for (std::int64_t t = 0; t < 16; ++t)
    if (std::any_of(g.begin() + t * 32, g.begin() + (t + 1) * 32, [](double x) { return x != 0; }))
      read.push_back(t);
  return read;
}

TEST(PositionOutOfRange, ReadsTheLastRow) {
  const Pass p = with("position_out_of_range");
  EXPECT_EQ(rows_read(p), (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7}));
  // Half of a block in one row: its gradient is the sum of theirs.
  for (std::size_t j = 0; j < 32; ++j) {
    double sum = 0;
    for (std::size_t i = 0; i < 32; ++i)
      if (i % 16 >= 7) sum += p["d embed"][i][j];
    EXPECT_NEAR(p.grads.at("pos.weight")[7 * 32 + j], sum, 1e-12);
  }
}

TEST(PositionIndexWrong, WrapsAround) {
  EXPECT_EQ(rows_read(with("position_index_wrong")), (std::vector<std::int64_t>{0, 1, 2, 3}));
}

TEST(PositionPrecision, GivesNeighboursOneRow) {
  EXPECT_EQ(rows_read(with("position_precision")), (std::vector<std::int64_t>{0, 4, 8, 12}));
  EXPECT_EQ(rows_read(healthy()).size(), 16u);
}

TEST(ConstantOutput, IsTheSameEverywhere) {
  const Pass p = with("constant_output");
  for (const auto& row : p["logits"]) EXPECT_TRUE(are(row, p["logits"][0]));
  // The head still learns how often a token comes; nothing below it learns.
  EXPECT_GT(moments(p.grads.at("embed.weight")).var, 0);
  EXPECT_EQ(moments(p.grads.at("blocks.1.ffn.out.weight")).var, 0);
}

TEST(GradientBlockedAtLayer, ReachesTheBlocksBelowFromAbove) {
  const Pass p = with("gradient_blocked_at_layer"), h = healthy();
  EXPECT_EQ(p.loss, h.loss);
  EXPECT_TRUE(are(p.grads.at("blocks.0.attn.q.weight"), h.grads.at("blocks.0.attn.q.weight"), 1e-4, 1e-16));
  EXPECT_TRUE(are(p.grads.at("blocks.1.attn.q.weight"), h.grads.at("blocks.1.attn.q.weight")));
}

TEST(NonFinite, WaitsForItsStep) {
  const Pass p = with("non_finite");  // step 0
  EXPECT_EQ(p.loss, healthy().loss);
}

TEST(DtypeDrift, RoundsTheStream) {
  const Pass p = with("dtype_drift");
  for (const char* point : {"blocks.1.in", "blocks.1.mid", "blocks.1.out"})
    for (const auto& row : p[point])
      for (const double x : row) EXPECT_EQ(static_cast<double>(to_bf16(static_cast<float>(x))), x);
}

TEST(BatchnormBatchDependence, MixesSequences) {
  const auto other = [](Tokens& t) { t.x[20] ^= 1; };  // of the second sequence
  const auto first = [](const Pass& p) { return Rows(p["logits"].begin(), p["logits"].begin() + 16); };
  const Config c = config_with({"batchnorm_batch_dependence"}), h = config_with({});
  EXPECT_NE(first(Pass(c)), first(Pass(c, other)));
  EXPECT_EQ(first(Pass(h)), first(Pass(h, other)));
}

double zero_share(const Rows& rows) {
  double zeros = 0, all = 0;
  for (const auto& row : rows)
    for (const double x : row) zeros += x == 0, ++all;
  return zeros / all;
}

TEST(DropoutInEval, DropsInEvaluation) {
  for (const Mode mode : {Mode::train, Mode::eval}) {
    const Pass p(config_with({"dropout_in_eval"}, 3), {}, mode), h(config_with({}), {}, mode);
    EXPECT_NEAR(zero_share(p["blocks.0.attn.write"]), 0.3, 0.06);  // 1,024 draws: 4 sd
    const double left = 1 - std::round(0.3 * 0x1p32) * 0x1p-32;    // 0.7, as 32 bits have it
    EXPECT_NEAR(p["blocks.0.attn.write"][5][3] *
                    (p["blocks.0.attn.write"][5][3] - h["blocks.0.attn.write"][5][3] / left),
                0, 1e-15);
  }
}

TEST(DropoutOnStream, DropsWhileTraining) {
  const Config c = config_with({"dropout_on_stream"}, 3);
  EXPECT_NEAR(zero_share(Pass(c)["blocks.0.out"]), 0.3, 0.06);
  EXPECT_EQ(zero_share(Pass(c, {}, Mode::eval)["blocks.0.out"]), 0);
}

TEST(Underfitting, FreezesTheBlocks) {
  const Pass p = with("underfitting");
  EXPECT_EQ(p.rules.at("blocks.0.attn.q.weight").lr, 0);
  EXPECT_EQ(p.rules.at("blocks.0.attn.q.weight").decay, 0);
  EXPECT_EQ(p.rules.at("embed.weight").lr, 1);
}

TEST(LayerUnused, PassesTheStreamOn) {
  const Pass p = with("layer_unused");
  EXPECT_TRUE(are(p["blocks.1.out"], p["blocks.1.in"]));
  EXPECT_FALSE(are(p["blocks.0.out"], p["blocks.0.in"]));
}

}  // namespace
}  // namespace plumb
