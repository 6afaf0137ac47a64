#include "plumb/study/pilot.h"

#include <algorithm>
#include <cmath>

#include "plumb/base/error.h"
#include "plumb/kernel/measure.h"
#include "plumb/model/decoder.h"
#include "plumb/train/optimizer.h"

namespace plumb {
namespace {

constexpr std::int64_t steps = 160, every = 10, longest_warmup = 30, tokens = 256, fewest_sequences = 4;

// The mean KL of adjacent predictions of one call.
class AdjacentKlHook final : public Hook<float> {
 public:
  explicit AdjacentKlHook(std::int64_t block) : block_(block) {}
  bool wants(std::string_view point, Dir dir) const override {
    return point == "logits" && dir == Dir::forward;
  }
  void begin(int n_shard) override { parts_.assign(static_cast<std::size_t>(n_shard), {}); }
  void at(std::string_view, Dir, View<float> v, int shard) override {
    for (std::int64_t i = 0; i < v.rows; i += block_)
      parts_[static_cast<std::size_t>(shard)].merge(adjacent_kl(View<const float>(v).slice(i, block_)));
  }
  double value() const {
    Mean all;
    for (const Mean& m : parts_) all.merge(m);
    return all.value();
  }

 private:
  std::int64_t block_;
  std::vector<Mean> parts_;
};

}  // namespace

struct Pilot::Parts {
  const Feed& feed;
  const TrainConfig train;
  const std::int64_t block, batch;
  const double loss_factor;
  ParamStore<float> store;
  ThreadPool pool{1};
  AdjacentKlHook kl;
  std::vector<Hook<float>*> hooks{&kl};
  Plan<float> plan;
  std::unique_ptr<Optimizer<float>> optimizer;

  explicit Parts(const Patient& p)
      : feed(p.feed),
        train(p.sick.train),
        block(p.block()),
        batch(std::max(fewest_sequences, tokens / p.block())),
        loss_factor(p.faults.loss_factor),
        store(p.store.layout(), static_cast<std::uint64_t>(train.seed)),
        kl(block),
        plan(make_plan<float>(p.spec, p.components, store,
                              {.mode = Mode::train,
                               .batch = batch,
                               .block = block,
                               .loss = {train.label_smoothing, train.z_loss},
                               .loss_factor = loss_factor},
                              pool, hooks)),
        optimizer(make_optimizer<float>(train, p.components, store.layout(), 1)) {
    std::ranges::copy(p.store.values(), store.values().begin());
    std::ranges::copy(p.store.states(), store.states().begin());
  }
};

Pilot::Pilot(const Patient& p) : parts_(std::make_unique<Parts>(p)) {}
Pilot::~Pilot() = default;

PilotCourse Pilot::run(const std::function<bool()>& interrupted) {
  Parts& p = *parts_;
  PilotCourse c;
  std::vector<std::int32_t> x(static_cast<std::size_t>(p.batch * p.block)), y(x.size());
  const std::int64_t warmup = std::clamp<std::int64_t>(p.train.warmup, 1, longest_warmup);
  double sum = 0;
  for (std::int64_t s = 0; s < steps; ++s) {
    if (interrupted && interrupted()) throw Error("interrupted; nothing was written", 130);
    const bool last = s % every == every - 1;
    p.plan.observe(last);
    p.feed.fill(s, 0, x, y);
    const LossResult loss = p.plan.loss_and_grad(x, y, {s, s * p.batch});
    const double norm = p.plan.grad_norm();
    sum += loss.cross_entropy / p.loss_factor;
    if (!std::isfinite(loss.loss) || !std::isfinite(norm)) break;
    if (last) {
      c.step.push_back(static_cast<double>(s)), c.loss.push_back(sum / static_cast<double>(every)),
          c.kl.push_back(p.kl.value());
      sum = 0;
    }
    const double share = std::min(1.0, static_cast<double>(s + 1) / static_cast<double>(warmup));
    p.optimizer->update(p.store, p.plan.grads(), norm, {p.train.lr * share, share}, p.pool);
    p.plan.commit();
  }
  return c;
}

}  // namespace plumb
