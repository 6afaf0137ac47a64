// Learned absolute positions: y[b, t] = x[b, t] + p[t]. Radford et al. 2018 (GPT), section 3.1.
//
// Shapes: x, y (B, T, C); p (block_size, C). Gradients: dx as its sink says; dp[t] sums over the sequences of
// the shard in order, rows past T are cleared by an overwriting sink.
#include <algorithm>

#include "plumb/kernel/rows.h"
#include "plumb/position/position.h"

namespace plumb {
namespace {

template <class R>
class AddPositionsOp final : public Op<R> {
 public:
  OpInfo info() const override { return {.kind = "add_positions"}; }

  void forward(Run<R>& r) const override {
    const auto x = r.in(0), p = r.in(1);
    const std::int64_t t = x.rows / r.sequences();
    if (r.position() + t > p.rows)
      bad_input(
          "[position] learned positions end at block_size {}, the input has {} positions; use a shorter one, "
          "or train with model.position = \"none\" or \"t5\"",
          p.rows, r.position() + t);
    for (std::int64_t b = 0; b < r.sequences(); ++b)
      axpby(1, x.slice(b * t, t), 1, p.slice(r.position(), t), r.out().slice(b * t, t));
  }

  void backward(Run<R>& r) const override {
    const auto dy = r.dout();
    pass(1, dy, r.din(0));
    const auto dp = r.din(1);
    if (!dp) return;
    const std::int64_t t = dy.rows / r.sequences();
    for (std::int64_t b = 0; b < r.sequences(); ++b)
      pass(1, dy.slice(b * t, t), Sink<R>{dp.v.slice(0, t), b == 0 && dp.overwrite});
    if (dp.overwrite)
      for (std::int64_t i = t; i < dp.v.rows; ++i) std::fill_n(dp.v.row(i), dp.v.cols, R(0));
  }
};

template <class R>
class Learned final : public Position<R> {
 public:
  explicit Learned(const DecoderSpec& s) : block_size_(s.block_size) {}

  Value embed(Builder<R>& b, Value x) const override {
    const Shape shape = b.shape(x);
    const std::int64_t t = shape.dims[1].n;
    if (t > block_size_)
      bad_input(
          "[position] learned positions end at block_size {}, the input has {} positions; use a shorter "
          "block, or train with model.position = \"none\" or \"t5\"",
          block_size_, t);
    const Dim channels = shape.dims.back();
    const Value p =
        b.param({"pos.weight", Role::pos_embed, Shape{Dim{'T', block_size_}, channels}, 1, channels.n});
    const Value y = b.node1(std::make_unique<AddPositionsOp<R>>(), {.name = "pos",
                                                                    .in = {x, p},
                                                                    .out = {shape},
                                                                    .backward_reads_in = false,
                                                                    .backward_reads_out = false});
    b.expected_var(y, b.expected_var(x) + b.rule(p).variance());
    return y;
  }

 private:
  std::int64_t block_size_;
};

}  // namespace

namespace entries::position {
extern constexpr PositionEntry learned = position_entry<Learned>({
    .name = "learned",
    .formula = "y[t] = x[t] + p[t]",
    .paper = "Radford et al. 2018 (GPT), section 3.1",
    .pitfalls = "There is no row past block_size: longer inputs are an error.",
});
}  // namespace entries::position

}  // namespace plumb
