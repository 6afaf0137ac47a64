#include "plumb/train/optimizer.h"

namespace plumb {

template <class R>
std::unique_ptr<Optimizer<R>> make_optimizer(const TrainConfig& t, const Components& components,
                                             const ParamLayout& layout, int threads) {
  OptimSpec s{.beta1 = t.beta1,
              .beta2 = t.beta2,
              .eps = t.adam_eps,
              .weight_decay = t.weight_decay,
              .independent_decay = t.decay == "independent",
              .grad_clip = t.grad_clip,
              .agc = t.agc,
              .lr_scale = t.lr_scale};
  if (t.momentum) s.momentum = *t.momentum;
  return choose_optimizer(components.optim, t.optimizer).template make<R>(layout, s, threads);
}

Rate rate_at(const TrainConfig& t, std::int64_t step) {
  const ScheduleSpec s{t.schedule, t.lr, t.min_lr, t.warmup, t.steps};
  return {learning_rate(s, step), schedule_share(s, step)};
}

template std::unique_ptr<Optimizer<float>> make_optimizer(const TrainConfig&, const Components&,
                                                          const ParamLayout&, int);
template std::unique_ptr<Optimizer<double>> make_optimizer(const TrainConfig&, const Components&,
                                                           const ParamLayout&, int);

}  // namespace plumb
