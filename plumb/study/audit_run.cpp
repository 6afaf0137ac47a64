// What only a few steps show: whether an interrupted run goes on as if it had not been, and which learning rates move the
// loss.
#include <algorithm>
#include <cmath>

#include "plumb/base/error.h"
#include "plumb/model/decoder.h"
#include "plumb/study/audit.h"
#include "plumb/study/scratch.h"
#include "plumb/train/optimizer.h"
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
  constexpr std::int64_t steps = 40;
  constexpr double decades = 4;  // from lr / 10^2 to lr 10^2
  const std::int64_t block = p.block(), batch = std::max<std::int64_t>(1, 512 / block);
  DecoderSpec spec = p.spec;
  ParamStore<float> store(p.store.layout(), static_cast<std::uint64_t>(p.sick.train.seed));
  std::ranges::copy(p.store.values(), store.values().begin());
  std::ranges::copy(p.store.states(), store.states().begin());
  ThreadPool pool(static_cast<int>(p.sick.train.threads));
  auto plan = make_plan<float>(spec, p.components, store,
                               {.mode = Mode::train,
                                .batch = batch * pool.size(),
                                .block = block,
                                .loss = {p.sick.train.label_smoothing, p.sick.train.z_loss},
                                .loss_factor = p.faults.loss_factor},
                               pool);
  const auto optimizer = make_optimizer<float>(p.sick.train, p.components, store.layout(), pool.size());
  std::vector<std::int32_t> x(static_cast<std::size_t>(batch * pool.size() * block)), y(x.size());
  std::vector<double> rates, losses;
  for (std::int64_t s = 0; s < steps; ++s) {
    if (interrupted && interrupted()) throw Error("interrupted; nothing was written", 130);
    p.feed.fill(s, 0, x, y);
    const double lr =
        p.sick.train.lr * std::pow(10.0, decades * (static_cast<double>(s) / (steps - 1) - 0.5));
    const LossResult loss = plan.loss_and_grad(x, y, {s, s * batch});
    const double norm = plan.grad_norm();
    rates.push_back(lr), losses.push_back(loss.cross_entropy / p.faults.loss_factor);
    if (!std::isfinite(loss.loss) || !std::isfinite(norm)) break;
    optimizer->update(store, plan.grads(), norm, {lr, 1}, pool);
    plan.commit();
  }
  facts.add("ramp_lr", rates);
  facts.add("ramp_loss", losses);
}

}  // namespace plumb
