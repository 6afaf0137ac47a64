#include "plumb/study/lr_ramp.h"

#include <algorithm>
#include <cmath>

#include "plumb/model/decoder.h"
#include "plumb/train/optimizer.h"

namespace plumb {

LrRamp lr_ramp(Patient& p, const std::function<void()>& each) {
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
  LrRamp ramp;
  for (std::int64_t s = 0; s < steps; ++s) {
    each();
    p.feed.fill(s, 0, x, y);
    const double lr =
        p.sick.train.lr * std::pow(10.0, decades * (static_cast<double>(s) / (steps - 1) - 0.5));
    const LossResult loss = plan.loss_and_grad(x, y, {s, s * batch});
    const double norm = plan.grad_norm();
    ramp.rates.push_back(lr), ramp.losses.push_back(loss.cross_entropy / p.faults.loss_factor);
    if (!std::isfinite(loss.loss) || !std::isfinite(norm)) break;
    optimizer->update(store, plan.grads(), norm, {lr, 1}, pool);
    plan.commit();
  }
  return ramp;
}

}  // namespace plumb
