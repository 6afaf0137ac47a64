// The table of faults as a whole: every cause is there, every fault changes a run, and what
// cannot be is refused.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>

#include "plumb/base/files.h"
#include "tests/conformance/harness.h"
#include "tests/fault/rig.h"
#include "tests/support/error_text.h"
#include "tests/support/temp_dir.h"

namespace plumb {
namespace {

using namespace test;

// The ids that a diagnosis may answer with (CONTRACT, "Causes the doctor knows").
const std::set<std::string> causes = {"no_residual",
                                      "norm_on_identity_path",
                                      "skip_after_norm",
                                      "no_final_norm",
                                      "output_normalised",
                                      "norm_wrong_axis",
                                      "norm_inverted",
                                      "norm_eps_large",
                                      "norm_eps_lost",
                                      "norm_gain_convention",
                                      "residual_growth",
                                      "residual_scale_wrong",
                                      "init_too_large",
                                      "init_too_small",
                                      "head_zero",
                                      "tied_embedding_broken",
                                      "dead_ffn",
                                      "no_output_projection",
                                      "attention_unscaled",
                                      "attention_overscaled",
                                      "attention_logits_exploding",
                                      "kv_head_mapping",
                                      "causal_leak",
                                      "mask_value_finite",
                                      "position_missing",
                                      "position_out_of_range",
                                      "position_index_wrong",
                                      "position_precision",
                                      "constant_output",
                                      "gradient_blocked_at_layer",
                                      "lr_too_high",
                                      "lr_too_low",
                                      "warmup_too_short",
                                      "clip_after_step",
                                      "loss_spike",
                                      "non_finite",
                                      "dtype_drift",
                                      "updates_lost",
                                      "batchnorm_in_eval",
                                      "batchnorm_batch_dependence",
                                      "dropout_in_eval",
                                      "dropout_on_stream",
                                      "decay_on_gains",
                                      "loss_normaliser",
                                      "resume_mismatch",
                                      "nondeterministic",
                                      "overfitting",
                                      "underfitting",
                                      "layer_unused",
                                      "labels_shifted",
                                      "evaluated_on_training_data"};

TEST(Faults, EveryCauseIsHeld) {
  std::set<std::string> held;
  for (const FaultEntry& e : fault_table()) {
    EXPECT_TRUE(causes.contains(std::string(e.name))) << e.name;
    EXPECT_FALSE(e.what.empty()) << e.name;
    EXPECT_TRUE(e.config || e.spec || e.run || e.graph_f32) << e.name << " changes nothing";
    held.emplace(e.name);
  }
  EXPECT_EQ(held, causes);
}

// Settings without which a fault has nothing to be wrong about.
std::vector<std::string> needs(std::string_view fault) {
  std::vector<std::string> set = {"train.steps=12", "train.eval_every=0", "train.checkpoint_every=0"};
  if (fault == "kv_head_mapping") set.emplace_back("model.n_kv_head=2");
  if (fault == "loss_normaliser") set.insert(set.end(), {"train.accumulate=3", "train.batch_size=4"});
  return set;
}

TEST(Faults, EachChangesARunAndTheRunSaysSo) {
  const TempDir dir;
  std::map<std::string, TrainResult> healthy;  // by settings
  for (const FaultEntry& e : fault_table()) {
    const std::string name(e.name);
    const auto set = needs(name);
    const std::string key = set.back();
    if (!healthy.contains(key)) healthy[key] = run(config_with({}, 1, set), dir / ("healthy" + key));
    const TrainResult r = run(config_with({name}, 1, set), dir / name);
    EXPECT_EQ(r.faults, std::vector<std::string>{name});
    EXPECT_NE(read_file(dir / name / "manifest.json").find('"' + name + '"'), std::string::npos);
    EXPECT_NE(read_file(dir / name / "config.toml").find("inject = [\"" + name + "\"]"), std::string::npos);
    if (name != "lr_too_high" && name != "norm_eps_lost") {  // which may overflow, or not
      EXPECT_EQ(r.status, name == "non_finite" ? "non_finite" : "done") << name << ": " << r.reason;
    }
    const TrainResult& h = healthy.at(key);
    // The first is wrong once resumed, the second in the validation loss.
    const bool trains_alike = name == "resume_mismatch" || name == "evaluated_on_training_data";
    EXPECT_EQ(r.params_hash == h.params_hash, trains_alike) << name;
    EXPECT_EQ(r.val_loss == h.val_loss, name == "resume_mismatch") << name;
  }
}

// The graph with a fault in it is differentiated right, has the same bits on any number of threads, and
// floats as doubles. Two are wrong in their gradient by intention: one rounds, one blocks.
TEST(Faults, GraphsAreDifferentiatedAndDeterministic) {
  const Components c;
  int n = 0;
  for (const FaultEntry& e : c.fault) {
    if (!e.graph_f32 && !e.spec) continue;
    ++n;
    conformance::Subject s{"fault", std::string(e.name), "", conformance::small_spec(), &c};
    add_faults(s.spec, {.inject = {s.name}, .strength = 1}, 0, c.fault);
    if (s.name == "kv_head_mapping") s.spec.n_head = 4, s.spec.n_kv_head = 2;
    if (s.name == "head_zero") s.spec.tied_embeddings = false;  // as the fault has it in the config
    if (s.name != "gradient_blocked_at_layer" && s.name != "dtype_drift") {
      EXPECT_EQ(conformance::check_pair(s), "");
    }
    if (s.name != "dropout_on_stream") {  // which is another model in evaluation
      EXPECT_EQ(conformance::check_float(s), "");
    }
    EXPECT_EQ(conformance::check_bits(s), "");
  }
  EXPECT_GT(n, 25);
}

// In models of other parts a fault is refused, or it is there and differentiated right.
Config config_of(const DecoderSpec& spec) {
  Config c;
  for (const auto& field : spec_fields())
    if (const auto* same = find_config_field((field.section == "init" ? "" : "model.") + field.path()))
      same->set(c, field.get(spec));
  return c;
}

TEST(Faults, MeetOtherPartsOrAreRefused) {
  const Components c;
  int there = 0, refused = 0;
  for (const auto& [family, name] :
       std::vector<std::pair<std::string, std::string>>{{"position", "t5"},
                                                        {"position", "alibi"},
                                                        {"norm", "none"},
                                                        {"norm", "dyt"},
                                                        {"weight", "weight_norm"},
                                                        {"weight", "scaled_ws"},
                                                        {"residual", "none"},
                                                        {"residual", "nf"},
                                                        {"residual", "hyper_connections"},
                                                        {"init", "fixup"},
                                                        {"placement", "post"},
                                                        {"placement", "parallel"}}) {
    const conformance::Subject whole = conformance::subject(c, family, name);
    for (const FaultEntry& e : c.fault) {
      if (!e.graph_f32 && !e.spec) continue;
      conformance::Subject s = whole;
      s.family = "fault", s.variant = name, s.name = e.name;
      Config config = config_of(whole.spec);
      config.fault.inject = {s.name};
      try {
        with_faults(config, c.fault);
        add_faults(s.spec, config.fault, 0, c.fault);
        decoder_layout<double>(s.spec, c);
      } catch (const Error&) {
        ++refused;
        continue;
      }
      ++there;
      if (s.name == "gradient_blocked_at_layer" || s.name == "dtype_drift") continue;
      EXPECT_EQ(conformance::check_pair(s), "") << family << " " << name;
    }
  }
  fmt::print("{} there, {} refused\n", there, refused);
  EXPECT_GT(there, 5 * refused);
  EXPECT_GT(refused, 10);
}

TEST(Faults, SeveralAtOnce) {
  const std::vector<std::string> three = {"layer_unused", "constant_output", "lr_too_high"};
  const Pass p(config_with(three, 0.5)), h = healthy();
  EXPECT_EQ(p.spec.flaws.faults, (std::vector<std::string>{"layer_unused", "constant_output"}));
  EXPECT_TRUE(are(p["blocks.1.attn.write"], h["blocks.1.attn.write"], 0.5));
  EXPECT_NEAR(with_faults(config_with(three, 0.5), fault_table()).train.lr, 0.03, 1e-12);
  // Each sees what those before it left, and no two change one key.
  const auto refusal = [](const std::vector<std::string>& faults) {
    return error_text([&] { with_faults(config_with(faults), fault_table()); });
  };
  EXPECT_EQ(refusal({"norm_wrong_axis", "batchnorm_in_eval"}),
            "fault.inject (the default): 'norm_wrong_axis' and 'batchnorm_in_eval' both change model.norm; "
            "take one of "
            "them");
  EXPECT_EQ(refusal({"position_missing", "position_index_wrong"}),
            "fault.inject (the default): 'position_index_wrong' cannot be in this run: only model.position = "
            "\"learned\" has rows to read wrongly");
}

TEST(Faults, RefusalsAreOneSentence) {
  const auto refusal = [](const std::string& fault, double strength, const std::vector<std::string>& set) {
    return error_text([&] { sick(fault, strength, set); });
  };
  EXPECT_EQ(refusal("no_final_nrom", 1, {}),
            "fault.inject (the default): unknown fault 'no_final_nrom'; did you mean 'no_final_norm'? "
            "docs/faults.md "
            "lists them all");
  EXPECT_EQ(error_text([] {
              with_faults(config_with({"no_residual", "no_residual"}), fault_table());
            }),
            "fault.inject (the default) has 'no_residual' twice; name it once");
  EXPECT_EQ(
      refusal("no_residual", 1, {"fault.strength=0"}),
      "fault.strength = 0 (--set): 'no_residual' takes 0 to 1 and not 0: the share of the skip that is lost");
  EXPECT_EQ(refusal("no_final_norm", 1, {"model.placement=post"}),
            "fault.inject (the default): 'no_final_norm' cannot be in this run: there is no final norm to "
            "leave out");
  EXPECT_EQ(refusal("loss_normaliser", 1, {"fault.inject=loss_normaliser"}),
            "fault.inject (--set): 'loss_normaliser' cannot be in this run: train.accumulate = 1 has nothing "
            "to add "
            "up; set it to 2 or more");
}

TEST(Faults, OneThatChangesNothingIsRefused) {
  const auto idle = [](const std::string& fault, double strength, const std::string& set) {
    return error_text([&] { Pass(config_with({fault}, strength, {set})); })
        .starts_with("fault.inject: '" + fault + "' changes nothing in this model");
  };
  EXPECT_TRUE(idle("no_residual", 1, "model.residual=none"));             // the graph
  EXPECT_TRUE(idle("residual_scale_wrong", 1, "init.scheme=zero_last"));  // the parameters
  EXPECT_TRUE(idle("position_index_wrong", 0.01, "train.steps=5"));       // the spec
  EXPECT_TRUE(idle("warmup_too_short", 0.01, "train.warmup=5"));          // the config
  EXPECT_FALSE(idle("no_residual", 1, "model.residual=add"));
}

TEST(Faults, AreNamedInTomlAndOnTheCommandLine) {
  EXPECT_EQ(
      parse_config("[fault]\ninject = [\"no_residual\", 'lr_too_low']\nstrength = 0.5\n", "x").fault.inject,
      (std::vector<std::string>{"no_residual", "lr_too_low"}));
  for (const char* s :
       {"fault.inject=no_residual,lr_too_low", "fault.inject=[\"no_residual\", 'lr_too_low']"}) {
    Config c;
    set_value(c, s);
    EXPECT_EQ(c.fault.inject, (std::vector<std::string>{"no_residual", "lr_too_low"})) << s;
    EXPECT_EQ(parse_config(dump_toml(c, false), "back").fault.inject, c.fault.inject);
    EXPECT_EQ(config_from_json(config_to_json(c), "back").fault.inject, c.fault.inject);
  }
  EXPECT_EQ(error_text([] { parse_config("[fault]\ninject = [1, 2]\n", "x"); }),
            "fault.inject (x:2) must be a list of strings, but is an array; change it there");
}

// docs/faults.md is this table; PLUMB_WRITE_DOCS=1 writes it anew.
TEST(Faults, TheDocumentIsTheTable) {
  const std::string path = PLUMB_SOURCE_DIR "/docs/faults.md", text = faults_markdown(fault_table());
  if (std::getenv("PLUMB_WRITE_DOCS")) std::ofstream(path) << text;
  std::ifstream file(path);
  const std::string there{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(there, text) << "run PLUMB_WRITE_DOCS=1 build/dev/plumb_tests --gtest_filter='*Document*'";
}

}  // namespace
}  // namespace plumb
