// The diagnosis of configs: every fault, put into a small model, is named; healthy models of every kind are not.
#include "plumb/study/audit.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "plumb/doctor/doctor.h"
#include "tests/fault/rig.h"

namespace plumb::test {
namespace {

std::vector<std::string> causes_of(const Config& c, const AuditOptions& o = {}) {
  const Trace t = audit(c, Components{}, made_up_text(), o);
  std::vector<std::string> names;
  for (const Finding& f : diagnose(t, doctor_table()).findings) names.push_back(f.cause);
  return names;
}

Config patient(const std::vector<std::string>& set) {
  Config c = small_config();
  c.train.threads = 1;
  for (const std::string& s : set) set_value(c, s);
  return c;
}

// What may be named for a fault; the first must be. Fixed before any threshold was set: the fault itself, and
// what it is another word for.
std::vector<std::string> accepted(const std::string& fault) {
  if (fault == "head_zero")
    return {fault, "tied_embedding_broken"};  // it unties them, which the config does not say
  return {fault};
}

std::vector<std::string> settings_for(const std::string& fault) {
  if (fault == "kv_head_mapping") return {"model.n_kv_head=2"};
  if (fault == "loss_normaliser") return {"train.accumulate=2"};
  if (fault == "overfitting")
    return {"train.steps=2000"};  // the made-up text is short: 2 % of it are two blocks
  if (fault == "gradient_blocked_at_layer" || fault == "layer_unused" || fault == "dtype_drift")
    return {"model.n_layer=4"};
  return {};
}

class EveryFault : public testing::TestWithParam<std::string> {};

TEST_P(EveryFault, IsNamedBeforeTraining) {
  const std::string fault = GetParam();
  std::vector<std::string> set = settings_for(fault);
  set.push_back("fault.inject=" + fault);
  // Most of the time goes into what few faults are about.
  const auto found =
      causes_of(patient(set), {.resume = fault == "resume_mismatch" || fault == "nondeterministic",
                               .ramp = fault.starts_with("lr_too")});
  if (fault == "non_finite") {  // it begins while training
    EXPECT_TRUE(found.empty());
    return;
  }
  ASSERT_FALSE(found.empty());
  const auto may = accepted(fault);
  EXPECT_EQ(found.front(), fault);
  for (const std::string& f : found) EXPECT_NE(std::ranges::find(may, f), may.end()) << f;
}

INSTANTIATE_TEST_SUITE_P(Audit, EveryFault, testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (const FaultEntry& e : fault_table()) names.emplace_back(e.name);
                           return names;
                         }()),
                         [](const auto& info) { return info.param; });

struct Healthy {
  std::string name;
  std::vector<std::string> set;
};

class EveryKind : public testing::TestWithParam<Healthy> {};

TEST_P(EveryKind, IsNotBlamed) {
  const auto found = causes_of(patient(GetParam().set), {.resume = GetParam().name == "defaults"});
  EXPECT_TRUE(found.empty()) << found.front();
}

// Every entry of the tables but those that are what they are named for: norms that see other positions, and no
// residual at all.
std::vector<Healthy> kinds() {
  std::vector<Healthy> all{{"defaults", {}},
                           {"grouped_queries", {"model.n_kv_head=2"}},
                           {"one_key_head", {"model.n_kv_head=1"}},
                           {"much_dropout", {"train.dropout=0.4"}},
                           {"no_warmup", {"train.warmup=0"}},
                           {"plus_one", {"model.norm_gain=plus_one"}},
                           {"capped", {"model.attention.softcap=20", "model.logit_softcap=30"}},
                           {"accumulating", {"train.accumulate=2"}},
                           {"no_decay", {"train.weight_decay=0"}},
                           {"a_window", {"model.attention.window=4"}},
                           {"untied", {"model.tied_embeddings=false"}},
                           {"bf16_pure", {"train.precision=bf16_pure"}},
                           {"fp16_pure", {"train.precision=fp16_pure"}},
                           {"l2_queries", {"model.attention.qk_norm=l2"}},
                           {"rms_queries", {"model.attention.qk_norm=rms"}},
                           {"padded", {"data.rows=padded"}},
                           {"two_symbols", {"data.vocab_size=2"}},
                           {"post_dyt", {"model.placement=post", "model.norm=dyt"}},
                           {"partial_rope", {"model.position=rope", "model.rope.fraction=0.5"}}};
  const auto add = [&](const std::string& key, const auto& table, std::vector<std::string> but = {}) {
    for (const auto& e : table)
      if (const std::string name(e.name); std::ranges::find(but, name) == but.end())
        all.push_back({key.substr(key.rfind('.') + 1) + "_" + name, {key + "=" + name}});
    for (Healthy& h : all)
      if (h.name == "scheme_t_fixup") h.set = {"train.warmup=0", "init.scheme=t_fixup"};
  };
  const Components c;
  add("model.norm", c.norm, {"batch", "group", "instance"});
  add("model.placement", c.placement);
  add("model.residual", c.residual, {"none"});
  add("model.weight_param", c.weight);
  add("model.position", c.position);
  add("model.ffn.kind", c.ffn);
  add("init.scheme", c.init);
  add("train.optimizer", c.optim, {"sgd"});  // with the learning rate of AdamW it is lr_too_low
  return all;
}

INSTANTIATE_TEST_SUITE_P(Audit, EveryKind, testing::ValuesIn(kinds()),
                         [](const auto& info) { return info.param.name; });

TEST(Audit, LeavesTheFaultsOfTheConfigOut) {
  const Trace t = audit(patient({"fault.inject=no_final_norm"}), Components{}, made_up_text(),
                        {.resume = false, .ramp = false});
  const Config written = config_from_json(t.header.config, "the header");
  EXPECT_TRUE(written.fault.inject.empty());
  EXPECT_TRUE(written.model.final_norm.value_or(true));
  EXPECT_TRUE(spec_of(config_with({"no_final_norm"}), 61, Components{}).final_norm == false);
}

TEST(Audit, StopsWhenAsked) {
  int asked = 0;
  AuditOptions o{.interrupted = [&] { return ++asked > 3; }};
  try {
    audit(patient({}), Components{}, made_up_text(), o);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.exit_code, 130);
  }
}

}  // namespace
}  // namespace plumb::test
