// Stochastic gradient descent with momentum, in PyTorch's form (Sutskever et al. 2013; the learning rate
// multiplies the buffer, not the gradient that enters it).
//
//   p <- p (1 - shrink);  b <- momentum b + g;  p <- p - lr b
//
// PyTorch's own `weight_decay` of SGD is another thing, a term of the gradient (L2): here decay is decoupled,
// as in the other rules (SGDW, Loshchilov & Hutter 2017, arXiv 1711.05101, algorithm 1). State: "momentum", b
// of each parameter; none without momentum.
#include "plumb/optim/optim.h"

namespace plumb {
namespace {

template <class R>
class Sgd final : public Optimizer<R> {
 public:
  Sgd(const ParamLayout& layout, const OptimSpec& s, int)
      : Optimizer<R>(layout, s),
        momentum_(static_cast<R>(s.momentum)),
        buffer_(layout, [&](auto&) { return s.momentum != 0; }) {
    for (const Piece& at : pieces_of(layout, [](auto&) { return true; })) {
      const ParamInfo& p = layout.params[at.param];
      parts_.push_back({at.offset, at.n, buffer_.has(p) ? buffer_.view(p).data + at.at : nullptr,
                        ParamRate(p, s, p.rule.lr_sgd)});
    }
  }
  std::vector<OptimState<R>> state(const ParamInfo& p) const override {
    if (!buffer_.has(p)) return {};
    return {{"momentum", buffer_.view(p)}};
  }
  std::size_t bytes() const override { return buffer_.bytes(); }

 private:
  struct Part {
    std::int64_t offset, n;
    R* buffer;
    ParamRate rate;
  };

  void apply(const Update<R>& u) override {
    const auto scale = static_cast<R>(u.grad_scale);
    u.pool.run(static_cast<std::int64_t>(parts_.size()), [&](std::int64_t i) {
      const Part& part = parts_[static_cast<std::size_t>(i)];
      const auto lr = static_cast<R>(part.rate.step(u.rate)),
                 shrink = static_cast<R>(part.rate.shrink(u.rate));
      const R* g = u.grads + part.offset;
      R* p = u.values + part.offset;
      for (std::int64_t j = 0; j < part.n; ++j) {
        R b = scale * g[j];
        if (part.buffer) b = part.buffer[j] = momentum_ * part.buffer[j] + b;
        p[j] = (p[j] - shrink * p[j]) - lr * b;  // not p (1 - shrink): a small shrink would round away
      }
    });
  }

  R momentum_;
  StateBuffer<R> buffer_;
  std::vector<Part> parts_;
};

}  // namespace

namespace entries::optim {
extern constexpr OptimEntry sgd = optim_entry<Sgd>(
    {
        .name = "sgd",
        .purpose = "The plain rule, to see what Adam's scaling is for.",
        .formula = "b <- momentum b + g; p <- p (1 - shrink) - lr b",
        .paper = "Sutskever et al. 2013, ICML",
        .pitfalls =
            "A step is as long as the gradient: what scales gradients (depth, loss, clipping) scales it too.",
        .fields = "train.momentum",
    },
    1);
}  // namespace entries::optim

}  // namespace plumb
