// AdamW (Loshchilov & Hutter 2017, arXiv 1711.05101; Adam: Kingma & Ba 2014, arXiv 1412.6980).
//
//   p <- p (1 - shrink);  m <- b1 m + (1 - b1) g;  v <- b2 v + (1 - b2) g^2
//   p <- p - lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)
//
// State: m, v of each parameter.
#include "plumb/optim/adamw.h"

#include <cmath>

#include "plumb/kernel/adamw.h"

namespace plumb {

template <class R>
AdamWRule<R>::AdamWRule(const ParamLayout& layout, const OptimSpec& s,
                        const std::function<bool(const ParamInfo&)>& chosen)
    : s_(s), m_(layout, chosen), v_(layout, chosen) {
  for (const Piece& at : pieces_of(layout, chosen)) {
    const ParamInfo& p = layout.params[at.param];
    parts_.push_back(
        {at.offset, at.n, m_.view(p).data + at.at, v_.view(p).data + at.at, ParamRate(p, s, p.rule.lr)});
  }
}

template <class R>
void AdamWRule<R>::apply(const Update<R>& u) {
  AdamWStep step{.beta1 = s_.beta1, .beta2 = s_.beta2, .eps = s_.eps, .grad_scale = u.grad_scale};
  step.bias1 = 1 - std::pow(s_.beta1, static_cast<double>(u.t));
  step.bias2 = 1 - std::pow(s_.beta2, static_cast<double>(u.t));
  u.pool.run(static_cast<std::int64_t>(parts_.size()), [&](std::int64_t i) {
    const Part& p = parts_[static_cast<std::size_t>(i)];
    AdamWStep s = step;
    s.lr = p.rate.step(u.rate);
    s.shrink = p.rate.shrink(u.rate);
    adamw(p.n, s, u.grads + p.offset, u.values + p.offset, p.m, p.v);
  });
}

template <class R>
std::vector<OptimState<R>> AdamWRule<R>::state(const ParamInfo& p) const {
  if (!m_.has(p)) return {};
  return {{"m", m_.view(p)}, {"v", v_.view(p)}};
}

template class AdamWRule<float>;
template class AdamWRule<double>;

namespace {

template <class R>
class AdamW final : public Optimizer<R> {
 public:
  AdamW(const ParamLayout& layout, const OptimSpec& s, int)
      : Optimizer<R>(layout, s), all_(layout, s, [](auto&) { return true; }) {}
  std::vector<OptimState<R>> state(const ParamInfo& p) const override { return all_.state(p); }
  std::size_t bytes() const override { return all_.bytes(); }

 private:
  void apply(const Update<R>& u) override { all_.apply(u); }
  AdamWRule<R> all_;
};

}  // namespace

namespace entries::optim {
extern constexpr OptimEntry adamw = optim_entry<AdamW>(
    {
        .name = "adamw",
        .purpose = "Steps of one size whatever the gradient's: the usual optimiser of Transformers.",
        .formula = "m, v: running means of g, g^2; p <- p (1 - shrink) - lr m^ / (sqrt(v^) + eps)",
        .paper = "Loshchilov & Hutter 2017, arXiv 1711.05101",
        .pitfalls = "Blind to the gradient's scale, until it nears eps: then it stops learning.",
        .fields = "train.beta1, train.beta2, train.adam_eps",
    },
    0.5);
}  // namespace entries::optim

}  // namespace plumb
