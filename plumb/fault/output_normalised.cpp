// A second softmax: the loss takes the softmax of y = (1 - s) z + s softmax(z), z the logits, s the strength.
// With s = 1 no logit is more than 1 above another, and the loss cannot fall below ln(1 + (V - 1) / e).
#include <algorithm>
#include <cmath>
#include "plumb/fault/fault.h"

namespace plumb {
namespace {

// dz = (1 - s) dy + s p (dy - sum(p dy)).
template <class R>
class SecondSoftmaxOp final : public Op<R> {
 public:
  explicit SecondSoftmaxOp(double s) : s_(static_cast<R>(s)) {}
  OpInfo info() const override { return {.kind = "second_softmax"}; }
  std::size_t prepare(const Run<R>& r, ProductCache<R>&) override {
    return static_cast<std::size_t>(r.in(0).cols) * sizeof(R);
  }

  void forward(Run<R>& r) const override {
    const std::span<R> p{static_cast<R*>(r.scratch()), static_cast<std::size_t>(r.in(0).cols)};
    for (std::int64_t i = 0; i < r.in(0).rows; ++i) {
      softmax(r.in(0).row(i), p);
      for (std::size_t j = 0; j < p.size(); ++j) r.out().row(i)[j] = (1 - s_) * r.in(0).row(i)[j] + s_ * p[j];
    }
  }

  void backward(Run<R>& r) const override {
    const Sink<R> dz = r.din(0);
    if (!dz) return;
    const std::span<R> p{static_cast<R*>(r.scratch()), static_cast<std::size_t>(dz.v.cols)};
    for (std::int64_t i = 0; i < dz.v.rows; ++i) {
      softmax(r.in(0).row(i), p);
      const R* dy = r.dout().row(i);
      R mean = 0;
      for (std::size_t j = 0; j < p.size(); ++j) mean += p[j] * dy[j];
      for (std::size_t j = 0; j < p.size(); ++j) {
        const R g = (1 - s_) * dy[j] + s_ * p[j] * (dy[j] - mean);
        R& to = dz.v.row(i)[j];
        to = dz.overwrite ? g : to + g;
      }
    }
  }

 private:
  static void softmax(const R* z, std::span<R> p) {
    const R top = *std::max_element(z, z + p.size());
    R sum = 0;
    for (std::size_t j = 0; j < p.size(); ++j) sum += p[j] = std::exp(z[j] - top);
    for (R& x : p) x /= sum;
  }
  R s_;
};

template <class R>
class OutputNormalised final : public GraphFault<R> {
 public:
  OutputNormalised(const DecoderSpec&, double strength) : s_(strength) {}
  Value at(Builder<R>& b, std::string_view point, Value v) override {
    if (point != "logits") return v;
    return b.node1(std::make_unique<SecondSoftmaxOp<R>>(s_),
                   {.name = "logits.fault", .in = {v}, .out = {b.shape(v)}, .backward_reads_out = false});
  }

 private:
  double s_;
};

}  // namespace

namespace entries::fault {
extern constexpr FaultEntry output_normalised = graph_fault<OutputNormalised>({
    .name = "output_normalised",
    .what = "the logits go through a softmax before the loss takes its own",
    .strength = "the softmax's share of what the loss reads",
});
}  // namespace entries::fault

}  // namespace plumb
