// What only a few steps show: whether an interrupted run goes on as if it had not been, and which learning rates move the
// loss.
#include <algorithm>

#include "plumb/base/error.h"
#include "plumb/study/audit.h"
#include "plumb/study/lr_ramp.h"
#include "plumb/study/scratch.h"
#include "plumb/train/trainer.h"

namespace plumb {
namespace {
// Stops before step `at`, or when the person asks.
TrainResult until(const TrainJob& job, const Patient& p, std::int64_t at,
                  const std::function<bool()>& interrupted) {
  TrainEvents events;
  std::int64_t asked = -1;
  std::int64_t begun = 0;
  events.start = [&](const RunStart& s) { begun = s.first_step; };
  events.interrupted = [&] { return ++asked + begun >= at || (interrupted && interrupted()); };
  return train(job, p.components, p.corpus, events);
}

}  // namespace

void audit_resume(Patient& p, FactSheet& facts, const std::function<bool()>& interrupted) {
  const Scratch dir;
  TrainJob job;
  job.config = p.config;
  TrainConfig& t = job.config.train;
  t.steps = std::max<std::int64_t>(t.steps, 4);
  t.batch_size = std::min<std::int64_t>(t.batch_size, 2);
  t.accumulate = 1;
  t.eval_every = t.checkpoint_every = 0;
  if (std::ranges::find(job.config.fault.inject, "loss_normaliser") != job.config.fault.inject.end())
    t.accumulate = p.config.train.accumulate;
  // The schedule's first steps are nearly still where it warms up: the peak from the start.
  t.warmup = 0;
  std::erase(job.config.fault.inject, "warmup_too_short");
  job.out = dir.path / "whole";
  const std::string whole = until(job, p, 3, interrupted).params_hash;
  job.out = dir.path / "cut";
  until(job, p, 2, interrupted);
  const TrainResult after = until(resume_job(job.out, {}), p, 3, interrupted);
  if (interrupted && interrupted()) throw Error("interrupted; nothing was written", 130);
  facts.add("resume_repeats", after.params_hash == whole);
}

void audit_ramp(Patient& p, FactSheet& facts, const std::function<bool()>& interrupted) {
  const LrRamp ramp = lr_ramp(p, [&] {
    if (interrupted && interrupted()) throw Error("interrupted; nothing was written", 130);
  });
  facts.add("ramp_lr", ramp.rates);
  facts.add("ramp_loss", ramp.losses);
}

}  // namespace plumb
