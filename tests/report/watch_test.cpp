// The doctor beside a run: what arises is told once, when it has lasted, and of a healthy run nothing is.
#include "plumb/report/watch.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/small_run.h"
#include "tests/support/temp_dir.h"

namespace plumb::test {
namespace {

using Told = std::vector<std::pair<std::int64_t, std::string>>;

// A Post-LN run whose loss is `loss(step)`.
Told told_of(const std::function<double(std::int64_t)>& loss, std::int64_t steps, std::int64_t warmup = 100) {
  Config c;
  c.model.placement = "post";
  c.train.warmup = warmup;
  Trace trace;
  trace.header.config = config_to_json(c);
  trace.facts = {{"baseline_uniform", 7.1}, {"baseline_unigram", 5.7}};
  Told told;
  Watch watch([&] { return trace; }, 25);
  for (std::int64_t i = 0; i < steps; ++i) {
    trace.steps.push_back({i, {{"loss", loss(i)}}, {}});
    for (const Finding& f : watch.add(trace.steps.back())) told.emplace_back(i, f.cause);
  }
  return told;
}

double to_unigram(std::int64_t i) { return 5.7 + 1.4 * std::exp(-static_cast<double>(i) / 20); }

TEST(Watch, AStuckRunIsToldOnceAndNotBeforeItCanBeKnown) {
  const Told told = told_of(to_unigram, 1000);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].second, "norm_on_identity_path");
  EXPECT_GE(told[0].first, 300);  // docs/doctor.md: stuck after 300 steps
  EXPECT_LE(told[0].first, 350);  // and two looks of 25 steps
}

// With a longer warm-up nothing is known of it at step 300.
TEST(Watch, ALongWarmUpIsNotStuck) {
  const auto late = [](std::int64_t i) { return i < 600 ? to_unigram(i) : 4.5; };
  EXPECT_EQ(told_of(late, 1000, 500), Told{});
  EXPECT_EQ(told_of(to_unigram, 1000, 500).size(), 1u);
  EXPECT_GE(told_of(to_unigram, 1000, 500)[0].first, 700);
}

// A wave of the loss that ends before the next look: only what lasts is told.
TEST(Watch, WhatPassesIsLeftToTheEnd) {
  const auto wave = [](std::int64_t i) {
    const double falling = 3 + 4 * std::exp(-static_cast<double>(i) / 100),
                 x = static_cast<double>(i - 400) / 8;
    return falling + 0.9 * std::exp(-x * x);
  };
  for (const auto& [step, cause] : told_of(wave, 800)) EXPECT_NE(cause, "norm_on_identity_path") << step;
}

TEST(Watch, ASpikeIsTold) {
  const auto spike = [](std::int64_t i) {
    return 4 + 0.01 * static_cast<double>(i % 7) + (i >= 203 && i < 210 ? 3 : 0);
  };
  const Told told = told_of(spike, 400);
  ASSERT_FALSE(told.empty());
  EXPECT_EQ(told[0].second, "loss_spike");
  EXPECT_EQ(told[0].first, 250);  // seen at 225, and again
}

// Small models that learn, in their first 300 steps and beyond: nothing at all.
TEST(Watch, HealthyRunsAreLeftInPeace) {
  for (const char* set :
       {"model.norm=layer", "model.norm=rms", "model.placement=sandwich", "model.residual=deepnorm",
        "train.lr=1e-3", "train.warmup=100", "train.optimizer=muon", "model.position=rope"}) {
    Config c = small_config();
    for (const char* s :
         {set, "train.steps=320", "train.batch_size=4", "train.eval_every=0", "train.checkpoint_every=0"})
      set_value(c, s);
    const TempDir dir;
    const auto out = dir / "run";
    std::optional<ProbeSet> probes;
    Watch watch([&] { return read_trace(out / "trace.jsonl"); }, c.probe.every);
    TrainEvents events;
    events.observe = [&](const DecoderSpec& s) {
      probes.emplace(s);
      return observers_of(*probes);
    };
    int rows = 0;
    events.row = [&](const StepRow& r) {
      ++rows;
      for (const Finding& f : watch.add(r))
        ADD_FAILURE() << set << ", step " << r.step << ": " << f.cause << ": " << f.why;
    };
    const TrainResult r = train({.config = c, .out = out}, Components{}, made_up_text(), events);
    EXPECT_EQ(rows, 321) << set;                                // and the validation at the end
    EXPECT_LT(r.train_loss, r.baselines.unigram - 0.1) << set;  // it did learn
  }
}

}  // namespace
}  // namespace plumb::test
