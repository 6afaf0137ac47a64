// Whole runs with each optimiser and with what is minimised beside the cross-entropy: the same bits under
// every circumstance, checkpoints that only their own optimiser reads, and losses that are told without those
// terms.
#include <gtest/gtest.h>

#include <algorithm>

#include "plumb/base/files.h"
#include "plumb/model/decoder.h"
#include "plumb/spec/from_config.h"
#include "plumb/trace/reader.h"
#include "plumb/train/checkpoint.h"
#include "plumb/train/optimizer.h"
#include "tests/support/error_text.h"
#include "tests/support/small_run.h"
#include "tests/support/temp_dir.h"

namespace plumb {
namespace {

using test::after;
using test::run;

Config with(std::initializer_list<const char*> sets) {
  Config c = test::small_config();
  set_value(c, "train.steps=20");
  set_value(c, "train.eval_every=0");
  for (const char* s : sets) set_value(c, s);
  return c;
}
Config with(const std::string& optimizer, std::initializer_list<const char*> sets = {}) {
  Config c = with(sets);
  set_value(c, "train.optimizer=" + optimizer);
  if (optimizer == "sgd") set_value(c, "train.lr=0.3");
  return c;
}

class EveryOptimizer : public testing::TestWithParam<OptimEntry> {
 protected:
  std::string name() const { return std::string(GetParam().name); }
};
INSTANTIATE_TEST_SUITE_P(All, EveryOptimizer, testing::ValuesIn(optim_table()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(EveryOptimizer, LearnsToTheSameBitsOnAnyThreadsAndByAccumulation) {
  test::TempDir dir;
  int n = 0;
  auto hash = [&](std::initializer_list<const char*> sets) {
    return run(with(name(), sets), dir / std::to_string(++n), false).params_hash;
  };
  const TrainResult base =
      run(with(name(), {"train.agc=0.05", "train.z_loss=1e-3", "train.label_smoothing=0.1"}), dir / "base");
  EXPECT_EQ(base.status, "done");
  EXPECT_LT(base.val_loss, base.initial_loss - 0.3);
  const auto terms = {"train.agc=0.05", "train.z_loss=1e-3", "train.label_smoothing=0.1", "train.threads=1"};
  EXPECT_EQ(hash(terms), base.params_hash);
  EXPECT_EQ(hash({"train.agc=0.05", "train.z_loss=1e-3", "train.label_smoothing=0.1", "train.threads=4"}),
            base.params_hash);
  EXPECT_EQ(hash({"train.agc=0.05", "train.z_loss=1e-3", "train.label_smoothing=0.1", "train.batch_size=3",
                  "train.accumulate=4"}),
            base.params_hash);
  EXPECT_NE(hash({"train.agc=0.05", "train.z_loss=1e-3"}), base.params_hash);
  EXPECT_NE(hash({"train.agc=0.05", "train.label_smoothing=0.1"}), base.params_hash);
  EXPECT_NE(hash({"train.z_loss=1e-3", "train.label_smoothing=0.1"}), base.params_hash);
}

TEST_P(EveryOptimizer, ResumesToTheByte) {
  test::TempDir dir;
  const Config c = with(name(), {"train.agc=0.05", "train.z_loss=1e-3", "train.decay=independent",
                                 "train.weight_decay=1e-3", "train.schedule=wsd"});
  const TrainResult whole = run(c, dir / "whole");
  for (const int stop : {1, 17}) {
    const auto out = dir / std::to_string(stop);
    run(c, out, true, after(stop));
    const TrainResult r = run(resume_job(out, {"train.threads=1"}));
    EXPECT_EQ(r.params_hash, whole.params_hash) << stop;
    EXPECT_EQ(r.train_loss, whole.train_loss) << stop;
    EXPECT_EQ(read_file(out / "trace.jsonl"), read_file(dir / "whole/trace.jsonl")) << stop;
  }
}

TEST_P(EveryOptimizer, ReadsNoOthersState) {
  test::TempDir dir;
  run(with(name(), {"train.steps=2"}), dir / "run", false);
  const auto file = dir / "run/checkpoint-2.safetensors";
  const CheckpointInfo info = read_checkpoint_info(file);
  ParamStore<float> store(decoder_layout<float>(info.spec, Components{}), 9);
  const std::string untouched = store.hash();
  for (const OptimEntry& other : optim_table()) {
    const auto optimizer = other.make<float>(store.layout(), {}, 1);
    if (other.name == name()) continue;
    const std::string said = test::error_text([&] { load_checkpoint(file, store, *optimizer); });
    EXPECT_NE(said.find("holds the state of another optimiser (its config says '" + name() + "')"),
              std::string::npos)
        << said;
    EXPECT_EQ(store.hash(), untouched);
    // Weights alone are any optimiser's start.
    const Config c = with(std::string(other.name), {"train.steps=1"});
    EXPECT_EQ(
        run(TrainJob{.config = c, .out = dir / std::string(other.name), .from = dir / "run"}, false).status,
        "done");
  }
  const auto own = GetParam().make<float>(store.layout(), {}, 1);
  load_checkpoint(file, store, *own);
  EXPECT_EQ(own->steps(), 2);
  EXPECT_NE(test::error_text([&] {
              resume_job(dir / "run", {"train.optimizer=x"});
            }).find("train.optimizer cannot change"),
            std::string::npos);
}

// The two decays with the same product of learning rate and weight decay at a constant rate are the same run.
TEST(Decay, IndependentIsCoupledDividedByTheRate) {
  test::TempDir dir;
  const auto loss = [&](const char* decay, const char* weight_decay, const char* lr) {
    const Config c = with({"train.schedule=constant", "train.warmup=0", decay, weight_decay, lr});
    return run(c, dir / (std::string(decay) + lr), false).params_hash;
  };
  // 2^-8 and 2^-4: their products are exact.
  EXPECT_EQ(loss("train.decay=coupled", "train.weight_decay=0.0625", "train.lr=0.00390625"),
            loss("train.decay=independent", "train.weight_decay=0.000244140625", "train.lr=0.00390625"));
  EXPECT_NE(loss("train.decay=coupled", "train.weight_decay=0.0625", "train.lr=0.0078125"),
            loss("train.decay=independent", "train.weight_decay=0.000244140625", "train.lr=0.0078125"));
}

TEST(Decay, MuchIndependentDecayIsSaid) {
  test::TempDir dir;
  std::vector<std::string> remarks;
  TrainEvents events;
  events.start = [&](const RunStart& s) { remarks = s.remarks; };
  train({.config = with({"train.decay=independent", "train.steps=0"}), .out = dir / "run"}, Components{},
        test::made_up_text(), events);
  EXPECT_TRUE(std::ranges::any_of(remarks, [](const std::string& r) {
    return r.find("takes 10 % off every matrix at each step") != std::string::npos;
  }));
}

// At the first step nothing has been minimised yet: the loss is the same whatever will be; what is minimised
// is told beside.
TEST(Objective, LossesAreTheCrossEntropyAndTheObjectiveIsToldBeside) {
  test::TempDir dir;
  const TrainResult plain = run(with({"train.steps=3"}), dir / "plain", false);
  const TrainResult more =
      run(with({"train.steps=3", "train.z_loss=0.5", "train.label_smoothing=0.2"}), dir / "more", false);
  EXPECT_EQ(more.initial_loss, plain.initial_loss);
  EXPECT_NE(more.train_loss, plain.train_loss);
  const Trace trace = read_trace(dir / "more/trace.jsonl");
  for (const StepRow& row : trace.steps) {
    const double *loss = row.find("loss"), *objective = row.find("objective");
    if (!loss) continue;
    ASSERT_NE(objective, nullptr);
    // ln V is about the log-sum-exp of logits near 0.
    const double lse = plain.baselines.uniform;
    EXPECT_NEAR(*objective - *loss, 0.5 * lse * lse, 0.3);
    EXPECT_EQ(*row.find("cross_entropy"), *loss);
  }
  for (const StepRow& row : read_trace(dir / "plain/trace.jsonl").steps) {
    EXPECT_EQ(row.find("objective"), nullptr);
    EXPECT_EQ(row.find("agc_clipped"), nullptr);
  }
}

// A run of no steps validates the start: by the cross-entropy alone.
TEST(Objective, ValidationIsThePlainCrossEntropy) {
  test::TempDir dir;
  const double plain = run(with({"train.steps=0"}), dir / "a", false).val_loss;
  EXPECT_EQ(run(with({"train.steps=0", "train.z_loss=0.5", "train.label_smoothing=0.2"}), dir / "b", false)
                .val_loss,
            plain);
}

TEST(Clipping, AdaptiveClippingIsTold) {
  test::TempDir dir;
  run(with({"train.steps=3", "train.agc=1e-6"}), dir / "much", false);
  run(with({"train.steps=3", "train.agc=1e6"}), dir / "never", false);
  for (const auto& [run_name, share] : {std::pair{"much", 1.0}, {"never", 0.0}})
    for (const StepRow& row : read_trace(dir / run_name / "trace.jsonl").steps) {
      if (!row.find("loss")) continue;
      ASSERT_NE(row.find("agc_clipped"), nullptr);
      // Rows whose gradient is exactly 0 (a token that did not occur) are short enough whatever lambda is.
      EXPECT_NEAR(*row.find("agc_clipped"), share, 0.2) << run_name;
    }
}

TEST(Optimizers, AnUnknownOneIsRefusedAndNothingIsWritten) {
  test::TempDir dir;
  const std::string said = test::error_text([&] { run(with("adam"), dir / "run"); });
  EXPECT_NE(said.find("unknown optimizer 'adam'; did you mean 'adamw'?"), std::string::npos) << said;
  EXPECT_FALSE(std::filesystem::exists(dir / "run"));
}

// The momentum that nobody gave is what the rule's authors use, and shows in the resolved config.
TEST(Optimizers, MomentumFollowsTheRule) {
  const auto momentum = [](const char* optimizer) { return resolve_config(with(optimizer)).train.momentum; };
  EXPECT_EQ(momentum("sgd"), 0.9);
  EXPECT_EQ(momentum("muon"), 0.95);
  EXPECT_EQ(momentum("adamw"), std::nullopt);
  EXPECT_EQ(resolve_config(with("muon", {"train.momentum=0.5"})).train.momentum, 0.5);
}

TEST(Optimizers, ASettingOfAnotherRuleHasNoEffectAndThatIsSaid) {
  const auto unused = [](const char* optimizer, const char* set) {
    const auto all = unused_settings(with(optimizer, {set}), Components{});
    return all.empty() ? std::string() : all[0];
  };
  EXPECT_EQ(unused("adamw", "train.momentum=0.8"),
            "train.momentum = 0.8 has no effect: train.optimizer = \"adamw\" does not read it");
  EXPECT_EQ(unused("sgd", "train.beta1=0.8"),
            "train.beta1 = 0.8 has no effect: train.optimizer = \"sgd\" does not read it");
  EXPECT_EQ(unused("muon", "train.beta1=0.8"), "");
  EXPECT_EQ(unused("muon", "train.momentum=0.8"), "");
}

TEST(UnusedSettings, WhatNeedsAnotherSetting) {
  const auto unused = [](const std::vector<const char*>& set) {
    Config c;
    for (const char* s : set) set_value(c, s);
    const auto all = unused_settings(c, Components{});
    return all.empty() ? std::string() : all[0];
  };
  EXPECT_EQ(unused({"model.attention.full_every=2"}),
            "model.attention.full_every = 2 has no effect unless model.attention.window is above 0");
  EXPECT_EQ(unused({"model.attention.full_every=2", "model.attention.window=8"}), "");
  EXPECT_EQ(unused({"model.position=rope", "model.rope.factor=2"}),
            "model.rope.factor = 2.0 has no effect unless model.rope.scaling is another than \"none\"");
  EXPECT_EQ(unused({"model.position=rope", "model.rope.factor=2", "model.rope.scaling=linear"}), "");
  EXPECT_TRUE(unused({"model.norm=none", "model.norm_gain=plus_one"}).starts_with("model.norm_gain = "));
  EXPECT_TRUE(
      unused({"model.residual=rezero", "model.norm_gain=plus_one"}).starts_with("model.norm_gain = "));
  EXPECT_EQ(unused({"model.norm=none", "model.norm_gain=plus_one", "model.attention.qk_norm=rms"}), "");
  EXPECT_EQ(unused({"model.norm_gain=plus_one"}), "");
}

}  // namespace
}  // namespace plumb
