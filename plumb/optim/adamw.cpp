#include "plumb/optim/adamw.h"

#include <algorithm>
#include <cmath>

#include "plumb/kernel/adamw.h"

namespace plumb {

double clip_scale(double grad_norm, double clip) {
  if (clip == 0) return 1;
  return std::min(1.0, clip / (grad_norm + 1e-6));
}

template <class R>
AdamW<R>::AdamW(const ParamLayout& layout, const AdamWSpec& s)
    : s_(s),
      m_(static_cast<std::size_t>(layout.n_param_elements) * sizeof(R)),
      v_(static_cast<std::size_t>(layout.n_param_elements) * sizeof(R)) {
  constexpr std::int64_t piece = 16384;
  for (const ParamInfo& p : layout.params) {
    const double decay = p.spec.shape.dims.size() >= 2 && decays(p.spec.role) ? s.weight_decay * p.rule.decay : 0;
    for (std::int64_t at = 0; at < p.size(); at += piece)
      pieces_.push_back({p.offset + at, std::min(piece, p.size() - at), p.rule.lr * s.lr_scale[p.spec.role], decay});
  }
}

template <class R>
void AdamW<R>::update(ParamStore<R>& store, std::span<const R> grads, double grad_norm, double lr, ThreadPool& pool) {
  ++t_;
  AdamWStep step{.beta1 = s_.beta1, .beta2 = s_.beta2, .eps = s_.eps};
  step.grad_scale = clip_scale(grad_norm, s_.grad_clip);
  step.bias1 = 1 - std::pow(s_.beta1, static_cast<double>(t_));
  step.bias2 = 1 - std::pow(s_.beta2, static_cast<double>(t_));
  pool.run(static_cast<std::int64_t>(pieces_.size()), [&](std::int64_t i) {
    const Piece& p = pieces_[static_cast<std::size_t>(i)];
    AdamWStep s = step;
    s.lr = lr * p.lr;
    s.decay = p.decay;
    adamw(p.n, s, grads.data() + p.offset, store.values().data() + p.offset, m_.as<R>() + p.offset,
          v_.as<R>() + p.offset);
  });
}

template <class R>
View<R> AdamW<R>::m(const ParamInfo& p) const {
  return {m_.as<R>() + p.offset, p.spec.shape.rows(), p.spec.shape.cols(), p.spec.shape.cols()};
}
template <class R>
View<R> AdamW<R>::v(const ParamInfo& p) const {
  return {v_.as<R>() + p.offset, p.spec.shape.rows(), p.spec.shape.cols(), p.spec.shape.cols()};
}

template class AdamW<float>;
template class AdamW<double>;

}  // namespace plumb
