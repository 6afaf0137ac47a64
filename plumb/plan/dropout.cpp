#include "plumb/plan/dropout.h"

#include <algorithm>

namespace plumb {
namespace {

// Factors are drawn again in backward: nothing is kept.
template <class R>
class DropoutOp final : public Op<R> {
 public:
  DropoutOp(const Dropout& d, bool in_eval) : d_(d), in_eval_(in_eval) {}
  OpInfo info() const override { return {.kind = "dropout"}; }

  std::size_t prepare(const Run<R>& r, ProductCache<R>&) override {
    return static_cast<std::size_t>(r.in(0).cols) * sizeof(R);
  }

  void forward(Run<R>& r) const override { multiply(r, r.in(0), {r.out(), true}); }

  void backward(Run<R>& r) const override {
    if (const Sink<R> dx = r.din(0)) multiply(r, r.dout(), dx);
  }

 private:
  void multiply(const Run<R>& r, View<const R> x, Sink<R> y) const {
    const bool off = r.mode() == Mode::eval && !in_eval_;
    const Dropout now = in_call(d_, r);
    const std::int64_t of_sample = x.rows / r.sequences();
    const std::int64_t piece = std::max<std::int64_t>(1, r.piece_rows());
    r.parallel((x.rows + piece - 1) / piece, [&](std::int64_t p) {
      const std::span<R> f{static_cast<R*>(r.scratch()), static_cast<std::size_t>(x.cols)};
      if (off) std::ranges::fill(f, R(1));
      for (std::int64_t i = p * piece; i < std::min(x.rows, (p + 1) * piece); ++i) {
        if (!off)
          dropout_factors<R>(now, i / of_sample, Dropout::element(r.position() + i % of_sample, x.cols, 0),
                             f);
        const R* from = x.row(i);
        R* to = y.v.row(i);
        for (std::size_t j = 0; j < f.size(); ++j) {
          const R g = f[j] * from[j];
          to[j] = y.overwrite ? g : to[j] + g;
        }
      }
    });
  }
  Dropout d_;
  bool in_eval_;
};

}  // namespace

template <class R>
Value dropped(Builder<R>& b, Value x, const Dropout& d, const std::string& name, bool in_eval) {
  const Value y = b.node1(std::make_unique<DropoutOp<R>>(d, in_eval), {.name = name,
                                                                       .in = {x},
                                                                       .out = {b.shape(x)},
                                                                       .backward_reads_in = false,
                                                                       .backward_reads_out = false});
  // Of evaluation: a rule that measures out its scales by it must not depend on dropout.
  b.expected_var(y, b.expected_var(x));
  return y;
}

template Value dropped(Builder<float>&, Value, const Dropout&, const std::string&, bool);
template Value dropped(Builder<double>&, Value, const Dropout&, const std::string&, bool);

}  // namespace plumb
