// Fixup's start.
#include <gtest/gtest.h>

#include <cmath>

#include "plumb/model/decoder.h"
#include "tests/support/error_text.h"

namespace plumb {
namespace {

DecoderSpec fixup_model() {
  DecoderSpec s;
  s.n_layer = 8, s.d_model = 12, s.n_head = 2, s.n_kv_head = 2, s.d_head = 6, s.d_ff = 18, s.block_size = 4,
  s.vocab_size = 9;
  s.init.scheme = "fixup";
  s.norm = "none";
  s.tied_embeddings = false;
  return s;
}

TEST(Fixup, LastMatricesAndTheHeadAreZeroAndTheOthersHeTimesBranches) {
  const Components c;
  const double shrink = 1 / std::sqrt(16.0);  // 16 branches of 2 layers: B^(-1/2)
  for (const ParamInfo& p : decoder_layout<double>(fixup_model(), c).params) {
    SCOPED_TRACE(p.spec.name);
    switch (p.spec.role) {
      case Role::attn_out:
      case Role::ffn_out:
      case Role::readout:
        EXPECT_EQ(p.rule.kind, ParamRule::Kind::constant);
        EXPECT_EQ(p.rule.scale, 0);
        break;
      case Role::q:
      case Role::k:
      case Role::v:
      case Role::ffn_in:
        EXPECT_EQ(p.rule.kind, ParamRule::Kind::normal);
        EXPECT_DOUBLE_EQ(p.rule.scale, std::sqrt(2.0 / static_cast<double>(p.spec.fan_out)) * shrink);
        break;
      case Role::token_embed:
      case Role::pos_embed:
        EXPECT_DOUBLE_EQ(p.rule.scale, 0.02);
        break;
      default:
        EXPECT_EQ(p.rule.kind, ParamRule::Kind::constant);
    }
  }
}

TEST(Fixup, ShiftsBeforeEachLinearAndActivationAndAGainABranch) {
  const Components c;
  const ParamLayout layout = decoder_layout<double>(fixup_model(), c);
  for (const char* name : {"blocks.3.attn.q.shift", "blocks.3.attn.o.shift", "blocks.3.ffn.in.shift",
                           "blocks.3.ffn.act.shift", "blocks.3.ffn.out.shift", "head.shift"})
    EXPECT_EQ(layout.find(name).rule.scale, 0) << name;
  for (const char* name : {"blocks.3.attn.gain", "blocks.3.ffn.gain"})
    EXPECT_EQ(layout.find(name).rule.scale, 1) << name;
  int scalars = 0;
  for (const ParamInfo& p : layout.params) scalars += p.spec.role == Role::scalar ? 1 : 0;
  EXPECT_EQ(scalars, 8 * (5 + 2) + 1);
}

TEST(Fixup, TheFirstLossIsThatOfTheUniformGuess) {
  const DecoderSpec s = fixup_model();
  const Components c;
  ParamStore<double> store(decoder_layout<double>(s, c), 1);
  ThreadPool pool(1);
  auto plan = make_plan<double>(s, c, store, {.mode = Mode::eval, .batch = 1, .block = 4}, pool);
  const std::vector<std::int32_t> x{1, 5, 3, 8};
  EXPECT_NEAR(plan.loss(x, x).loss, std::log(9.0), 1e-12);
}

TEST(Fixup, RefusesNormsAndASharedHead) {
  const Components c;
  DecoderSpec s = fixup_model();
  s.norm = "layer";
  EXPECT_EQ(test::error_text([&] { check_spec(s, c); }),
            "init scheme = 'fixup': Fixup trains without norms; set norm = 'none'");
  s = fixup_model();
  s.tied_embeddings = true;
  EXPECT_EQ(test::error_text([&] { check_spec(s, c); }),
            "init scheme = 'fixup': Fixup starts the head at zero, which a shared embedding cannot; set "
            "tied_embeddings = false");
}

}  // namespace
}  // namespace plumb
