// The rules by fans against PyTorch's gains, and the rules by depth against their papers' tables.
#include <gtest/gtest.h>

#include <cmath>

#include "plumb/model/decoder.h"
#include "tests/support/error_text.h"
#include "tests/support/reference.h"

namespace plumb {
namespace {

// std of the matrix (out 128, in 512) of this role under a scheme.
ParamRule rule_of(const std::string& scheme, Role role, auto edit) {
  DecoderSpec s;
  s.init.scheme = scheme;
  edit(s);
  const auto init = choose(init_table(), "init scheme", scheme, s).make<double>(s);
  return init->rule(
      {.name = "w", .role = role, .shape = {{'O', 128}, {'C', 512}}, .fan_in = 512, .fan_out = 128}, 1);
}
double std_of(const std::string& scheme, Role role, auto edit) { return rule_of(scheme, role, edit).scale; }

TEST(ByFans, StandardDeviationsArePyTorchs) {
  const auto& e = test::reference("init_gains");
  const auto plain = [](DecoderSpec&) {};
  const auto uniform = [](DecoderSpec& s) { s.init.distribution = "uniform"; };
  EXPECT_NEAR(std_of("lecun", Role::q, plain), e.out("lecun_std").scalar(), 1e-12);
  EXPECT_NEAR(std_of("xavier", Role::q, plain), e.out("xavier_std").scalar(), 1e-12);
  EXPECT_NEAR(std_of("xavier", Role::q, uniform), e.out("xavier_uniform_bound").scalar(), 1e-12);
  const auto relu = [](DecoderSpec& s) { s.ffn.kind = "relu"; };
  EXPECT_NEAR(std_of("kaiming", Role::ffn_in, relu), e.out("kaiming_relu_std").scalar(), 1e-12);
  EXPECT_NEAR(std_of("kaiming", Role::ffn_out, relu), e.out("kaiming_relu_std").scalar(), 1e-12);
  const auto relu_uniform = [](DecoderSpec& s) { s.ffn.kind = "relu", s.init.distribution = "uniform"; };
  EXPECT_NEAR(std_of("kaiming", Role::ffn_in, relu_uniform), e.out("kaiming_uniform_relu_bound").scalar(),
              1e-12);
  // Attention has no activation: its gain is 1, LeCun's.
  EXPECT_NEAR(std_of("kaiming", Role::q, relu), e.out("lecun_std").scalar(), 1e-12);
  for (const auto& [kind, gain] : {std::pair{"tanh", "gains.tanh"}, {"leaky_relu", "gains.leaky_relu_0.01"}})
    EXPECT_NEAR(std_of("kaiming", Role::ffn_in, [kind = kind](DecoderSpec& s) { s.ffn.kind = kind; }),
                e.out(gain).scalar() / std::sqrt(512.0), 1e-12);
}

TEST(ByFans, TablesTakeTheirStdAndBiasesAreZero) {
  for (const char* scheme : {"lecun", "xavier", "kaiming", "zero_last"}) {
    const auto with_std = [](DecoderSpec& s) { s.init.std = 0.3; };
    EXPECT_EQ(std_of(scheme, Role::token_embed, with_std), 0.3) << scheme;
    EXPECT_EQ(std_of(scheme, Role::pos_embed, with_std), 0.3) << scheme;
    const ParamRule bias = rule_of(scheme, Role::bias, with_std);
    EXPECT_EQ(bias.kind, ParamRule::Kind::constant);
    EXPECT_EQ(bias.scale, 0);
  }
}

TEST(ZeroLast, WhatIsWrittenStartsAtZero) {
  DecoderSpec s;
  s.n_layer = 2, s.d_model = 8, s.n_head = s.n_kv_head = 2, s.d_head = 4, s.d_ff = 6, s.block_size = 4,
  s.vocab_size = 9;
  s.init.scheme = "zero_last";
  const Components c;
  int zero = 0, drawn = 0;
  for (const ParamInfo& p : decoder_layout<double>(s, c).params) {
    const bool last = p.spec.role == Role::attn_out || p.spec.role == Role::ffn_out;
    if (last) {
      EXPECT_TRUE(p.rule.kind == ParamRule::Kind::constant && p.rule.scale == 0) << p.spec.name;
    }
    (last ? zero : drawn) += p.rule.kind == ParamRule::Kind::normal || last ? 1 : 0;
  }
  EXPECT_EQ(zero, 4);
  EXPECT_EQ(drawn, 2 + 2 * 4);  // two tables; q, k, v and the first FFN matrix of each layer
  s.residual = "skip_init";
  EXPECT_EQ(test::error_text([&] { check_spec(s, c); }),
            "init scheme = 'zero_last': the residual rule's gain starts at zero too, and a product of two "
            "zeros has no "
            "gradient; choose one of the two");
}

TEST(TFixup, FactorsByDepth) {
  const auto& e = test::reference("depth_scalings");
  for (const std::int64_t n : {4, 6, 12}) {
    const double factor = e.out("tfixup.N" + std::to_string(n) + ".decoder").scalar();
    const auto edit = [n](DecoderSpec& s) { s.n_layer = n, s.norm = "none"; };
    const double xavier = std::sqrt(2.0 / (512 + 128));
    for (const Role role : {Role::v, Role::attn_out, Role::ffn_in, Role::ffn_out})
      EXPECT_NEAR(std_of("t_fixup", role, edit), factor * xavier, 1e-12);
    for (const Role role : {Role::q, Role::k}) EXPECT_NEAR(std_of("t_fixup", role, edit), xavier, 1e-12);
    EXPECT_NEAR(std_of("t_fixup", Role::token_embed, edit), factor / std::sqrt(128.0), 1e-12);
  }
}

DecoderSpec mup_model(std::int64_t width) {
  DecoderSpec s;
  s.n_layer = 2, s.d_model = width, s.n_head = s.n_kv_head = 2, s.d_head = width / 2, s.d_ff = 2 * width,
  s.block_size = 4;
  s.vocab_size = 9, s.init.scheme = "mup", s.init.base_d_model = 16, s.attention.scale = "mup";
  return s;
}

// The table of Yang et al. 2022 at four times the base width.
TEST(Mup, TheTableOfMultipliers) {
  const Components c;
  for (const bool tied : {true, false}) {
    DecoderSpec s = mup_model(64);
    s.tied_embeddings = tied;
    for (const ParamInfo& p : decoder_layout<double>(s, c).params) {
      SCOPED_TRACE(p.spec.name);
      const bool hidden = p.spec.name.find(".weight") != std::string::npos && p.spec.layer >= 0;
      EXPECT_EQ(p.rule.lr, hidden ? 0.25 : 1);
      EXPECT_EQ(p.rule.lr_sgd, hidden ? 1 : 4);
      if (hidden) {
        EXPECT_NEAR(p.rule.scale, 0.02 / 2, 1e-15);
      } else if (p.spec.role == Role::token_embed || p.spec.role == Role::readout) {
        EXPECT_EQ(p.rule.scale, 0.02);
      }
    }
  }
}

// Logits are divided by m: with the stream's other parts equal, those of a model that calls 16 its base are a
// quarter.
TEST(Mup, LogitsAreDividedByTheWidth) {
  struct Logits final : Hook<double> {
    std::vector<double> values;
    bool wants(std::string_view p, Dir d) const override { return p == "logits" && d == Dir::forward; }
    void at(std::string_view, Dir, View<double> v, int) override { values.assign(v.data, v.data + v.size()); }
  };
  const Components c;
  std::vector<double> of[2];
  ParamStore<double> store(decoder_layout<double>(mup_model(64), c), 3);
  for (int i = 0; i < 2; ++i) {
    DecoderSpec s = mup_model(64);
    s.init.base_d_head = 32;  // so that attention is the same in both
    if (i == 1) s.init.base_d_model = 64;
    Logits logits;
    Hook<double>* hooks[] = {&logits};
    ThreadPool pool(1);
    auto plan = make_plan<double>(s, c, store, {.mode = Mode::eval, .batch = 1, .block = 4}, pool, hooks);
    const std::vector<std::int32_t> x = {1, 2, 3, 4};
    plan.loss(x, x);
    of[i] = logits.values;
  }
  ASSERT_EQ(of[0].size(), of[1].size());
  for (std::size_t i = 0; i < of[0].size(); ++i) ASSERT_NEAR(4 * of[0][i], of[1][i], 1e-14);
}

// At the base width everything is the standard parametrisation.
TEST(Mup, AtTheBaseWidthItIsTheStandardOne) {
  const Components c;
  DecoderSpec s = mup_model(16);
  const ParamLayout mup = decoder_layout<double>(s, c);
  s.init.scheme = "normal", s.attention.scale = "auto";
  const ParamLayout normal = decoder_layout<double>(s, c);
  ASSERT_EQ(mup.params.size(), normal.params.size());
  for (std::size_t i = 0; i < mup.params.size(); ++i) {
    const ParamRule &a = mup.params[i].rule, &b = normal.params[i].rule;
    EXPECT_TRUE(a.kind == b.kind && a.scale == b.scale && a.lr == 1 && a.lr_sgd == 1)
        << mup.params[i].spec.name;
  }
  double loss[2];
  for (int i = 0; i < 2; ++i) {
    s.init.scheme = i ? "mup" : "normal", s.attention.scale = i ? "mup" : "auto";
    ParamStore<double> store(decoder_layout<double>(s, c), 3);
    ThreadPool pool(1);
    auto plan = make_plan<double>(s, c, store, {.mode = Mode::eval, .batch = 1, .block = 4}, pool, {});
    const std::vector<std::int32_t> x = {1, 2, 3, 4};
    loss[i] = plan.loss(x, x).loss;
  }
  EXPECT_NEAR(loss[1], loss[0], 1e-14);
}

TEST(Gpt2, ScaledInitByDepth) {
  const auto& e = test::reference("depth_scalings");
  for (const std::int64_t n : {2, 4, 12, 24, 48})
    EXPECT_NEAR(std_of("gpt2", Role::attn_out, [n](DecoderSpec& s) { s.n_layer = n; }),
                e.out("gpt2_std.N" + std::to_string(n)).scalar(), 1e-12);
}

}  // namespace
}  // namespace plumb
