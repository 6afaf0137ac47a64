#include "plumb/spec/from_config.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/error_text.h"
#include "tests/support/reference.h"

namespace plumb {
namespace {

using test::error_text;

DecoderSpec spec_of(const std::string& toml) {
  return spec_from_config(parse_config(toml, "run.toml"), 1200);
}

std::string refusal(const std::string& toml) {
  return error_text([&] { spec_of(toml); });
}

bool same(const DecoderSpec& a, const DecoderSpec& b) { return spec_to_json(a) == spec_to_json(b); }

// DecoderSpec's own defaults are the chapter's model too; config and spec must agree.
TEST(SpecFromConfig, AnEmptyConfigIsTheDefaultSpec) {
  DecoderSpec want;
  want.n_kv_head = want.kv_heads();
  EXPECT_TRUE(same(spec_of(""), want)) << spec_to_json(spec_of("")).dump();
}

TEST(SpecFromConfig, CopiesWhatWasSaid) {
  const DecoderSpec spec =
      spec_from_config(parse_config("[model]\nn_layer = 3\nd_model = 96\nn_head = 3\nnorm = "
                                    "'rms'\nresidual_lanes = 4\n[model.attention]\nbias = true\n"
                                    "[model.ffn]\nkind = 'swiglu'\n[init]\nstd = 0.05\n",
                                    "run.toml"),
                       77);
  EXPECT_EQ(spec.n_layer, 3);
  EXPECT_EQ(spec.d_head, 32);
  EXPECT_EQ(spec.n_kv_head, 3);
  EXPECT_EQ(spec.vocab_size, 77);
  EXPECT_EQ(spec.norm, "rms");
  EXPECT_EQ(spec.residual_lanes, 4);
  EXPECT_EQ(spec.attention.bias, "true");
  EXPECT_EQ(spec.ffn.kind, "swiglu");
  EXPECT_EQ(spec.init.std, 0.05);
}

TEST(SpecFromConfig, RefusesHeadsThatDoNotDivide) {
  EXPECT_EQ(refusal("[model]\nd_model = 100\nn_head = 3\n"),
            "model.d_model = 100 (run.toml:2) is not divisible by model.n_head = 3 (run.toml:3); change one "
            "of them or set model.d_head");
  EXPECT_EQ(spec_of("[model]\nd_model = 100\nn_head = 3\nd_head = 32\n").d_head, 32);
}

TEST(SpecFromConfig, FinalNormFollowsThePlacement) {
  EXPECT_TRUE(spec_of("[model]\nplacement = 'pre'\n").final_norm);
  EXPECT_TRUE(spec_of("[model]\nplacement = 'parallel'\n").final_norm);
  EXPECT_TRUE(spec_of("[model]\nplacement = 'sandwich'\n").final_norm);     // Gemma 2 has one
  EXPECT_TRUE(spec_of("[model]\nplacement = 'post_branch'\n").final_norm);  // OLMo 2 has one
  EXPECT_FALSE(spec_of("[model]\nplacement = 'post'\n").final_norm);
  EXPECT_FALSE(spec_of("[model]\nnorm = 'none'\n").final_norm);
  EXPECT_TRUE(spec_of("[model]\nplacement = 'post'\nfinal_norm = true\n").final_norm);
}

TEST(SpecFromConfig, FixupBringsItsSettings) {
  const DecoderSpec spec = spec_of("[init]\nscheme = 'fixup'\n");
  EXPECT_EQ(spec.norm, "none");
  EXPECT_FALSE(spec.final_norm);
  EXPECT_EQ(spec.residual, "add");
  EXPECT_FALSE(spec.tied_embeddings);
  EXPECT_TRUE(
      same(spec, spec_of("[model]\nnorm = 'none'\ntied_embeddings = false\n[init]\nscheme = 'fixup'\n")));
  int code = 0;
  EXPECT_EQ(error_text([] { spec_of("[model]\nnorm = 'layer'\n[init]\nscheme = 'fixup'\n"); }, &code),
            "model.norm = \"layer\" (run.toml:2) contradicts init.scheme = \"fixup\" (run.toml:4), which "
            "implies \"none\": Fixup trains "
            "without norms; remove one of the two");
  EXPECT_EQ(code, 2);
  EXPECT_EQ(refusal("[model]\ntied_embeddings = true\n[init]\nscheme = 'fixup'\n"),
            "model.tied_embeddings = true (run.toml:2) contradicts init.scheme = \"fixup\" (run.toml:4), "
            "which implies false: Fixup "
            "starts the head at zero, which a shared embedding cannot; remove one of the two");
  EXPECT_NE(refusal("[model]\nresidual = 'rezero'\n[init]\nscheme = 'fixup'\n"), "(no error)");
}

TEST(SpecFromConfig, ResidualRulesBringTheirSettings) {
  EXPECT_EQ(spec_of("[model]\nresidual = 'rezero'\n").norm, "none");
  EXPECT_EQ(spec_of("[model]\nresidual = 'nf'\n").norm, "none");
  EXPECT_EQ(spec_of("[model]\nresidual = 'nf'\n").weight_param, "scaled_ws");
  EXPECT_EQ(refusal("[model]\nresidual = 'nf'\nweight_param = 'plain'\n"),
            "model.weight_param = \"plain\" (run.toml:3) contradicts model.residual = \"nf\" (run.toml:2), "
            "which implies \"scaled_ws\": NF "
            "blocks rely on scaled weight standardisation; remove one of the two");
}

TEST(SpecFromConfig, T5HasNoAttentionScale) {
  EXPECT_EQ(spec_of("[model]\nposition = 't5'\n").attention.scale, "none");
  EXPECT_EQ(spec_of("").attention.scale, "auto");
  EXPECT_NE(refusal("[model]\nposition = 't5'\n[model.attention]\nscale = 'sqrt'\n"), "(no error)");
}

// The run folder's config.toml is the resolved one: reading it again must give the same model, implied values
// and all.
TEST(ResolveConfig, GivesAConfigThatReadsBackToTheSameSpec) {
  for (const std::string toml : {"", "[init]\nscheme = 'fixup'\n", "[model]\nresidual = 'nf'\n",
                                 "[model]\nposition = 't5'\n", "[model]\nplacement = 'post'\nn_head = 8\n"}) {
    const Config config = parse_config(toml, "run.toml");
    const Config again = parse_config(dump_toml(resolve_config(config), true), "config.toml");
    EXPECT_TRUE(same(spec_from_config(again, 1200), spec_from_config(config, 1200))) << toml;
  }
}

// Every field that the config also has is copied: changing it in the config changes it in the spec.
TEST(SpecFields, CoverTheConfigsModelAndInit) {
  std::size_t shared = 0;
  for (const auto& field : spec_fields())
    if (find_config_field((field.section == "init" ? "" : "model.") + field.path()) != nullptr) ++shared;
  std::size_t in_config = 0;
  for (const auto& field : config_fields())
    if (field.section.starts_with("model") || field.section == "init") ++in_config;
  EXPECT_EQ(shared + 2, in_config);  // eight_thirds and multiple_of become d_ff
  const auto flaws = static_cast<std::size_t>(
      std::ranges::count_if(spec_fields(), [](const auto& f) { return f.section == "flaws"; }));
  // vocab_size, ignore_index; [train]'s precision, norm_reduce, dropout and seed; what only faults set
  EXPECT_EQ(spec_fields().size(), shared + 6 + flaws);
  Config narrow;
  narrow.train.precision = "bf16_pure", narrow.train.norm_reduce = "storage";
  narrow.train.dropout = 0.25, narrow.train.seed = 9;
  const DecoderSpec s = spec_from_config(narrow, 1200);
  EXPECT_EQ(s.numbers.precision, "bf16_pure");
  EXPECT_EQ(s.numbers.norm_reduce, "storage");
  EXPECT_EQ(s.noise.dropout, 0.25);
  EXPECT_EQ(s.noise.seed, 9);
}

TEST(SpecJson, ComesBack) {
  DecoderSpec spec;
  spec.norm = "rms";
  spec.ignore_index = -1;
  spec.ffn.top_k = 3;
  spec.init.residual_scale = false;
  const DecoderSpec back = spec_from_json(Json::parse(spec_to_json(spec).dump(), "x"), "x");
  EXPECT_TRUE(same(back, spec));
  EXPECT_EQ(back.ffn.top_k, 3);
}

TEST(SpecJson, RefusesWhatItDoesNotKnow) {
  Json json = spec_to_json(DecoderSpec{});
  json["ffn"]["top_kk"] = 1;
  EXPECT_TRUE(error_text([&] {
                spec_from_json(json, "a.safetensors");
              }).starts_with("unknown key 'ffn.top_kk'; did you mean 'ffn.top_k'? known: n_layer, "));
  json = spec_to_json(DecoderSpec{});
  json["n_layer"] = 0;
  EXPECT_EQ(error_text([&] { spec_from_json(json, "a.safetensors"); }),
            "n_layer (a.safetensors) must be at least 1 and at most 4096, but is 0; change it there");
  EXPECT_EQ(error_text([] { spec_from_json(Json::object(), "a.safetensors"); }),
            "a.safetensors has no key \"n_layer\"; add it there");
}

// A checkpoint that was written before a setting existed is the model it was.
TEST(SpecJson, SettingsYoungerThanTheSpecHaveTheirDefaults) {
  const DecoderSpec old =
      spec_from_json(Json::parse(R"({"n_layer": 2, "d_model": 8, "n_head": 2, "d_head": 4, "d_ff": 16,
        "block_size": 4, "vocab_size": 11, "norm": "rms", "ffn": {"kind": "relu"}})",
                                 "x"),
                     "x");
  DecoderSpec want;
  want.n_layer = 2, want.d_model = 8, want.n_head = 2, want.d_head = 4, want.d_ff = 16, want.block_size = 4;
  want.vocab_size = 11, want.norm = "rms", want.ffn.kind = "relu";
  EXPECT_TRUE(same(old, want)) << spec_to_json(old).dump();
  EXPECT_EQ(error_text([] {
              Json json = spec_to_json(DecoderSpec{});
              json["ffn"] = 3;
              spec_from_json(json, "a.safetensors");
            }),
            "ffn (a.safetensors) must be an object, but is an integer; correct it there");
}

// Llama's rule: int(2/3 4 d) rounded up to a multiple.
TEST(SpecFromConfig, EightThirds) {
  const test::Entry& e = test::reference("swiglu_hidden_size");
  for (const auto& [d, multiple] :
       {std::pair{128, 1}, {128, 32}, {512, 64}, {768, 64}, {4096, 256}, {5120, 256}, {8192, 256}}) {
    Config c;
    c.model.d_model = d, c.ffn.eight_thirds = true, c.ffn.multiple_of = multiple;
    EXPECT_EQ(static_cast<double>(spec_from_config(c, 100).d_ff),
              e.out(fmt::format("d{}_multiple{}", d, multiple)).scalar());
  }
  Config c;
  c.ffn.eight_thirds = true, c.model.d_ff = 352, c.places["model.d_ff"] = "run.toml:3";
  EXPECT_EQ(spec_from_config(c, 100).d_ff, 352);  // as a resolved config has it
  c.model.d_ff = 300;
  EXPECT_NE(test::error_text([&] { spec_from_config(c, 100); }).find("makes it 352"), std::string::npos);
}

TEST(SpecFromConfig, FewerHeadsOfKeys) {
  Config c;
  EXPECT_EQ(spec_from_config(c, 100).n_kv_head, 4);
  c.model.n_kv_head = 2;
  EXPECT_EQ(spec_from_config(c, 100).n_kv_head, 2);
  c.model.n_head = 8;
  EXPECT_EQ(spec_from_config(c, 100).n_kv_head, 2);
}

// A bias was true or false before it could be "qkv"; both are read, from a config and from an older spec.
TEST(SpecFromConfig, ABiasIsTrueFalseOrQkv) {
  Config c;
  c.attention.bias = "qkv";
  const DecoderSpec s = spec_from_config(c, 100);
  EXPECT_TRUE(s.attention.qkv_bias() && !s.attention.out_bias());
  std::string text = spec_to_json(s).dump();
  text.replace(text.find("\"qkv\""), 5, "true");
  const DecoderSpec old = spec_from_json(Json::parse(text, "spec"), "spec");
  EXPECT_TRUE(old.attention.qkv_bias() && old.attention.out_bias());
}

}  // namespace
}  // namespace plumb
