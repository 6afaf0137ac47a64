// Normalisation of queries and keys, head by head.
//
//   l2     y = g x / |x|, g learned, for queries alone; 1 for keys
//   rms    y = gamma x / sqrt(mean x^2 + eps), gamma shared by the heads
//   layer  y = gamma (x - mean) / sqrt(var + eps) + beta, likewise
//   layer_heads  y = gamma_h (x - mean) / sqrt(var + eps), gamma of head h its own, never a beta (StableLM 2)
//
// l2: Henry et al. 2020, arXiv 2010.04245, eq. 3; rms: Qwen3, Gemma 3; layer: Dehghani et al. 2023, arXiv
// 2302.05442, section 2. Shapes: x, y (B, T, heads·D); gamma, beta (D), or gamma (heads·D); g a scalar; kept:
// 1/std and mean (B, T, heads). Gradients: dx and those of the parameters as their sinks say; parameters sum over heads in order.
#pragma once
#include <cmath>

#include "plumb/kernel/rows.h"
#include "plumb/plan/op.h"

namespace plumb {

/// One norm over all the columns is a norm of one head.
struct HeadNorm {
  std::int64_t heads = 1;
  double eps = 1e-5;
  bool centred = false, bias = false, l2 = false, plus_one = false;  // plus_one: gamma is 1 + the parameter
  bool temperature = false;                                          // of l2: there is a g
  bool own_gains = false;                                            // gamma has heads·D elements
};

// Inputs: x; of l2 then g if there is one, of the others gamma and, where there is one, beta.
template <class R>
class HeadNormOp final : public Op<R> {
 public:
  HeadNormOp(const HeadNorm& n, std::int64_t width) : n_(n), width_(width) {
    if (n_.l2) n_.eps = 1e-24 / static_cast<double>(width);  // |x| is at least 1e-12
  }
  OpInfo info() const override { return {.kind = "qk_norm"}; }

  std::size_t prepare(const Run<R>&, ProductCache<R>&) override {
    return static_cast<std::size_t>(2 * width_) * sizeof(R);
  }

  void forward(Run<R>& r) const override {
    for (std::int64_t h = 0; h < n_.heads; ++h) {
      const View<const R> gamma = gain(r, h);
      const auto head = [&](auto v) { return v.columns(h * width_, width_); };
      if (n_.centred)
        layer_norm_forward<R>(head(r.in(0)), gamma, n_.bias ? r.in(2) : View<const R>{}, n_.eps,
                              head(r.out()), r.kept(1).columns(h, 1), r.kept(0).columns(h, 1));
      else
        rms_norm_forward<R>(head(r.in(0)), gamma, n_.eps, head(r.out()), r.kept(0).columns(h, 1));
    }
  }

  void backward(Run<R>& r) const override {
    const Sink<R> dx = r.din(0), dgain = has_gain() ? r.din(1) : Sink<R>{},
                  dbeta = n_.bias ? r.din(2) : Sink<R>{};
    const View<R> sum{static_cast<R*>(r.scratch()) + width_, 1, width_, width_};
    for (std::int64_t h = 0; h < n_.heads; ++h) {
      const View<const R> gamma = gain(r, h);
      const auto head = [&](auto v) { return v ? v.columns(h * width_, width_) : v; };
      const auto to = [&](Sink<R> s) { return Sink<R>{s.v, s.overwrite && h == 0}; };
      const Sink<R> into{head(dx.v), dx.overwrite};
      const Sink<R> dgamma = n_.l2          ? Sink<R>{dgain ? sum : View<R>{}, h == 0}
                             : n_.own_gains ? Sink<R>{head(dgain.v), dgain.overwrite}
                                            : to(dgain);
      const View<const R> rstd = r.kept(0).columns(h, 1), mean = r.kept(1).columns(h, 1);
      if (n_.centred)
        layer_norm_backward<R>(head(r.dout()), head(r.in(0)), gamma, mean, rstd, into, dgamma, to(dbeta));
      else
        rms_norm_backward<R>(head(r.dout()), head(r.in(0)), gamma, rstd, into, dgamma);
    }
    if (!n_.l2 || !dgain) return;
    double dg = 0;  // gamma is g / sqrt(D) in every column
    for (std::int64_t j = 0; j < width_; ++j) dg += static_cast<double>(sum.data[j]);
    dg /= std::sqrt(static_cast<double>(width_));
    *dgain.v.data = static_cast<R>(dg + (dgain.overwrite ? 0 : static_cast<double>(*dgain.v.data)));
  }

 private:
  bool has_gain() const { return !n_.l2 || n_.temperature; }
  View<const R> gain(const Run<R>& r, std::int64_t head) const {
    const std::int64_t from = n_.own_gains ? head * width_ : 0;
    if (!n_.l2 && !n_.plus_one) return r.in(1).columns(from, width_);
    R* gamma = static_cast<R*>(r.scratch());
    const double g = n_.temperature ? static_cast<double>(*r.in(1).data) : 1;
    for (std::int64_t j = 0; j < width_; ++j)
      gamma[j] =
          n_.l2 ? static_cast<R>(g / std::sqrt(static_cast<double>(width_))) : 1 + r.in(1).data[from + j];
    return {gamma, 1, width_, width_};
  }
  HeadNorm n_;
  std::int64_t width_;
};

}  // namespace plumb
