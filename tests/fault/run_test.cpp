// What each fault around the model does: settings, updates, data, evaluation, resuming.
#include <gtest/gtest.h>

#include <cmath>

#include "plumb/optim/optim.h"
#include "plumb/trace/reader.h"
#include "plumb/train/feed.h"
#include "plumb/train/opened.h"
#include "tests/fault/rig.h"
#include "tests/support/temp_dir.h"

namespace plumb {
namespace {

using namespace test;

TEST(LrTooHigh, IsAHundredfold) { EXPECT_NEAR(sick("lr_too_high").train.lr, 0.3, 1e-12); }
TEST(LrTooLow, IsAThousandth) { EXPECT_NEAR(sick("lr_too_low").train.lr, 3e-6, 1e-15); }
TEST(WarmupTooShort, IsLeftOut) {
  EXPECT_EQ(sick("warmup_too_short").train.warmup, 0);
  EXPECT_EQ(sick("warmup_too_short", 0.5).train.warmup, 5);
}
// SGD's first step is lr times the gradient: as long as the gradient is, where nothing clips it.
TEST(ClipAfterStep, TheUpdateIsAsLongAsTheGradient) {
  const TempDir dir;
  const auto moved = [&](const std::vector<std::string>& faults, const std::string& out) {
    const Config c = config_with(faults, 1,
                                 {"train.steps=1", "train.warmup=0", "train.optimizer=sgd", "train.lr=0.01",
                                  "train.grad_clip=0.5", "train.weight_decay=0", "train.eval_every=0"});
    run(c, dir / out, false);
    const auto open = [&](const char* file) { return open_run(dir / out / file, Components{}).store; };
    const ParamStore<float> before = open("checkpoint-0.safetensors"),
                            after = open("checkpoint-1.safetensors");
    double squares = 0;
    for (std::size_t i = 0; i < before.values().size(); ++i) {
      const double d = static_cast<double>(after.values()[i]) - static_cast<double>(before.values()[i]);
      squares += d * d;
    }
    return std::sqrt(squares);
  };
  const double healthy = moved({}, "a"), sick = moved({"clip_after_step"}, "b");
  const double norm = *read_trace(dir / "b" / "trace.jsonl").steps[0].find("grad_norm");
  EXPECT_GT(norm, 0.6);
  EXPECT_NEAR(healthy, 0.01 * 0.5, 1e-5);
  EXPECT_NEAR(sick, 0.01 * norm, 1e-5);
}
TEST(UpdatesLost, AreBelowTheParametersPrecision) {
  const TrainConfig t = sick("updates_lost").train;
  EXPECT_EQ(t.precision, "bf16_pure");
  EXPECT_LT(t.lr, 0.02 / 256);  // Adam's step against a weight of one standard deviation
}

TEST(LossSpike, IsOneUpdate) {
  const TempDir dir;
  const std::vector<std::string> set = {"train.steps=10", "train.eval_every=0"};
  run(config_with({"loss_spike"}, 1, set), dir / "a");
  run(config_with({}, 1, set), dir / "b");
  const auto a = read_trace(dir / "a" / "trace.jsonl").steps, b = read_trace(dir / "b" / "trace.jsonl").steps;
  for (std::size_t i = 0; i < 10; ++i)
    EXPECT_NEAR(*a[i].find("lr") / *b[i].find("lr"), i == 5 ? 100 : 1, 1e-9) << i;
}

TEST(NonFiniteFault, StopsTheRunAtItsStep) {
  const TempDir dir;
  const TrainResult r = run(config_with({"non_finite"}, 2), dir / "a");
  EXPECT_EQ(r.status, "non_finite");
  EXPECT_EQ(r.steps, 5);
  EXPECT_NE(r.reason.find("blocks.1.ffn.write"), std::string::npos) << r.reason;
}

TEST(DecayOnGains, DecaysThem) {
  const auto rate = [](const std::vector<std::string>& faults) {
    const auto layout =
        decoder_layout<double>(spec_of(config_with(faults, 0.5), 61, Components{}), Components{});
    return ParamRate(layout.find("blocks.0.attn.norm.gamma"), {.weight_decay = 0.1}, 1).decay;
  };
  EXPECT_EQ(rate({"decay_on_gains"}), 0.05);
  EXPECT_EQ(rate({}), 0);
}

TEST(LossNormaliser, MultipliesByTheMicroBatches) {
  const TempDir dir;
  const std::vector<std::string> set = {"train.steps=2", "train.accumulate=3", "train.batch_size=4"};
  const TrainResult a = run(config_with({"loss_normaliser"}, 1, set), dir / "a"),
                    b = run(config_with({}, 1, set), dir / "b");
  EXPECT_NEAR(a.initial_loss, 3 * b.initial_loss, 1e-9);
  EXPECT_NEAR(*read_trace(dir / "a" / "trace.jsonl").steps[0].find("grad_norm"),
              3 * *read_trace(dir / "b" / "trace.jsonl").steps[0].find("grad_norm"), 1e-6);
}

// Interrupted after 25 of 40 steps and resumed.
std::string resumed_hash(const std::vector<std::string>& faults, const std::filesystem::path& out) {
  run(config_with(faults, 1, {"train.steps=40"}), out, false, after(25));
  return run(resume_job(out, {}), false).params_hash;
}

TEST(Underfitting, BlocksStayAsDrawn) {
  const TempDir dir;
  run(config_with({"underfitting"}, 1, {"train.steps=8"}), dir / "a", false);
  const auto open = [&](const char* file) { return open_run(dir / "a" / file, Components{}).store; };
  const ParamStore<float> before = open("checkpoint-0.safetensors"), after = open("checkpoint-8.safetensors");
  for (const ParamInfo& p : before.layout().params) {
    const View<float> a = before.view(p), b = after.view(p);
    EXPECT_EQ(std::equal(a.data, a.data + a.size(), b.data), p.spec.layer >= 0) << p.spec.name;
  }
}

TEST(ResumeMismatch, ShowsOnlyWhenResumed) {
  const TempDir dir;
  const std::string whole = run(config_with({}, 1, {"train.steps=40"}), dir / "whole", false).params_hash;
  EXPECT_EQ(resumed_hash({}, dir / "healthy"), whole);
  EXPECT_NE(resumed_hash({"resume_mismatch"}, dir / "sick"), whole);
}

TEST(Nondeterministic, IsAnotherRunEachTime) {
  const TempDir dir;
  const auto hash = [&](const std::vector<std::string>& faults, const char* out) {
    return run(config_with(faults, 1, {"train.steps=3"}), dir / out, false).params_hash;
  };
  EXPECT_NE(hash({"nondeterministic"}, "a"), hash({"nondeterministic"}, "b"));
  EXPECT_EQ(hash({}, "c"), hash({}, "d"));
}

TEST(BatchnormInEval, LooksAtTheBatch) {
  const TempDir dir;
  const std::vector<std::string> set = {"train.steps=12"};
  const TrainResult a = run(config_with({"batchnorm_in_eval"}, 1, set), dir / "a"),
                    b = run(config_with({"batchnorm_batch_dependence"}, 1, set), dir / "b");
  EXPECT_EQ(a.train_loss, b.train_loss);
  EXPECT_NE(a.val_loss, b.val_loss);
}

struct Data {
  Corpus corpus = made_up_text();
  Config c;
  Feed feed;
  std::vector<std::int32_t> x = std::vector<std::int32_t>(32), y = x;
  explicit Data(const std::vector<std::string>& faults, double strength = 1)
      : c(config_with(faults, strength)),
        feed(c.data, corpus, 16, -100, 0, {}, run_faults(c, fault_table())) {}
};

TEST(LabelsShifted, TargetsAreFurtherOnOrTheInput) {
  Data ahead({"labels_shifted"}, 2), back({"labels_shifted"}, -1), right({});
  for (Data* d : {&ahead, &back, &right}) d->feed.fill(3, 0, d->x, d->y);
  EXPECT_EQ(ahead.x, right.x);
  for (std::size_t i = 0; i < 32; ++i) {
    EXPECT_EQ(ahead.y[i], i % 16 < 14 ? right.y[i + 2] : -100);
    EXPECT_EQ(back.y[i], right.x[i]);
  }
  Data validation({"labels_shifted"}, -1);
  validation.feed.fill_validation(1, validation.x, validation.y);
  EXPECT_EQ(validation.x, validation.y);
}

TEST(Overfitting, LeavesLittleToTrainOn) {
  const std::int64_t all = Data({}).feed.train_tokens(), few = Data({"overfitting"}).feed.train_tokens();
  EXPECT_EQ(few, static_cast<std::int64_t>(0.02 * static_cast<double>(all)));
  EXPECT_EQ(Data({"overfitting"}).feed.val_tokens(), Data({}).feed.val_tokens());
  EXPECT_EQ(Data({"overfitting"}).feed.baselines().bigram, Data({}).feed.baselines().bigram);
}

TEST(EvaluatedOnTrainingData, ValidatesOnTheFirstOfIt) {
  Data d({"evaluated_on_training_data"});
  d.feed.fill_validation(0, d.x, d.y);
  const auto tokens = d.feed.tokenizer().encode(d.corpus.text);
  EXPECT_TRUE(std::equal(d.x.begin(), d.x.end(), tokens.begin()));
  EXPECT_EQ(d.feed.val_tokens(), Data({}).feed.val_tokens());
}

}  // namespace
}  // namespace plumb
