// AdamW over a model's flat buffers, with clipping by global norm.
#pragma once
#include "plumb/base/threads.h"
#include "plumb/plan/params.h"

namespace plumb {

struct AdamWSpec {
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0.1;
  double grad_clip = 1.0;  // 0: off
  ByRole lr_scale = {};    // times lr (and so decay), by role; 0: frozen, though its gradient still counts in the norm
};

/// The clip coefficient min(1, clip / (norm + 1e-6)), 1 when clip is 0.
double clip_scale(double grad_norm, double clip);

/// Decay only for parameters with two dims or more whose role decays. Each parameter's rule multiplies learning rate and decay.
template <class R>
class AdamW {
 public:
  AdamW(const ParamLayout& layout, const AdamWSpec&);
  /// One update; `grad_norm` is of the unclipped gradients, in the layout of the store. Element-wise: the same bits on any
  /// number of threads.
  void update(ParamStore<R>&, std::span<const R> grads, double grad_norm, double lr, ThreadPool&);

  std::int64_t steps() const { return t_; }
  void steps(std::int64_t t) { t_ = t; }
  View<R> m(const ParamInfo&) const;
  View<R> v(const ParamInfo&) const;
  std::size_t bytes() const { return m_.bytes() + v_.bytes(); }

 private:
  struct Piece {
    std::int64_t offset, n;
    double lr, decay;
  };
  AdamWSpec s_;
  std::vector<Piece> pieces_;
  Arena m_, v_;
  std::int64_t t_ = 0;
};

}  // namespace plumb
