// Learned absolute positions: y[b, t] = x[b, t] + p[t]. Radford et al. 2018 (GPT), section 3.1.
//
// Shapes: x, y (B, T, C); p (block_size, C). Gradients: dx as its sink says; dp[t] sums over the sequences of
// the shard in order, rows that no position reads are cleared by an overwriting sink. A fault of the run may
// have position t read another row than t (spec.h, Flaws). With position_overflow = "clamp" positions past
// the table read its last row.
#include <algorithm>

#include "plumb/kernel/rows.h"
#include "plumb/position/position.h"

namespace plumb {
namespace {

template <class R>
class AddPositionsOp final : public Op<R> {
 public:
  AddPositionsOp(const DecoderSpec::Flaws& f, bool clamp)
      : clamp_(clamp), wrap_(f.position_wrap), step_(f.position_step), last_(f.position_last) {}
  OpInfo info() const override { return {.kind = "add_positions"}; }

  void forward(Run<R>& r) const override {
    const auto x = r.in(0), p = r.in(1);
    const std::int64_t t = x.rows / r.sequences();
    if (r.position() + t > p.rows && !clamp_)
      bad_input(
          "[position] learned positions end at block_size {}, the input has {} positions; use a shorter one, "
          "or train with model.position_overflow = \"clamp\" or with model.position = \"rope\"",
          p.rows, r.position() + t);
    for (std::int64_t b = 0; b < r.sequences(); ++b)
      each_run(r.position(), t, p.rows, [&](std::int64_t at, std::int64_t row, std::int64_t n) {
        axpby(1, x.slice(b * t + at, n), 1, p.slice(row, n), r.out().slice(b * t + at, n));
      });
  }

  void backward(Run<R>& r) const override {
    const auto dy = r.dout();
    pass(1, dy, r.din(0));
    const auto dp = r.din(1);
    if (!dp) return;
    const std::int64_t t = dy.rows / r.sequences();
    const bool in_order =
        wrap_ == 0 && step_ == 1 && last_ < 0 && t <= dp.v.rows;  // each position reads its own row
    if (dp.overwrite)
      for (std::int64_t i = in_order ? t : 0; i < dp.v.rows; ++i) std::fill_n(dp.v.row(i), dp.v.cols, R(0));
    for (std::int64_t b = 0; b < r.sequences(); ++b)
      each_run(0, t, dp.v.rows, [&](std::int64_t at, std::int64_t row, std::int64_t n) {
        pass(1, dy.slice(b * t + at, n), Sink<R>{dp.v.slice(row, n), in_order && b == 0 && dp.overwrite});
      });
  }

 private:
  std::int64_t row_of(std::int64_t position, std::int64_t rows) const {
    std::int64_t row = wrap_ > 0 ? position % wrap_ : position;
    row -= row % step_;
    return std::min(row, last_ >= 0 ? last_ : rows - 1);
  }

  // f(first position, its row, n) for stretches of the t positions from `first` whose rows follow each other.
  template <class F>
  void each_run(std::int64_t first, std::int64_t t, std::int64_t rows, const F& f) const {
    for (std::int64_t at = 0; at < t;) {
      const std::int64_t row = row_of(first + at, rows);
      std::int64_t n = 1;
      while (at + n < t && row_of(first + at + n, rows) == row + n) ++n;
      f(at, row, n);
      at += n;
    }
  }

  bool clamp_;
  std::int64_t wrap_, step_, last_;
};

template <class R>
class Learned final : public Position<R> {
 public:
  explicit Learned(const DecoderSpec& s)
      : block_size_(s.block_size), clamp_(s.position_overflow == "clamp"), flaws_(s.flaws) {}

  Value embed(Builder<R>& b, Value x) const override {
    const Shape shape = b.shape(x);
    const std::int64_t t = shape.dims[1].n;
    if (t > block_size_ && !clamp_)
      bad_input(
          "[position] learned positions end at block_size {}, the input has {} positions; use a shorter "
          "block, or train with model.position_overflow = \"clamp\" or with model.position = \"rope\"",
          block_size_, t);
    const Dim channels = shape.dims.back();
    const Value p =
        b.param({"pos.weight", Role::pos_embed, Shape{Dim{'T', block_size_}, channels}, 1, channels.n});
    const Value y =
        b.node1(std::make_unique<AddPositionsOp<R>>(flaws_, clamp_), {.name = "pos",
                                                                      .in = {x, p},
                                                                      .out = {shape},
                                                                      .backward_reads_in = false,
                                                                      .backward_reads_out = false});
    b.expected_var(y, b.expected_var(x) + b.rule(p).variance());
    return y;
  }

 private:
  std::int64_t block_size_;
  bool clamp_;
  DecoderSpec::Flaws flaws_;
};

}  // namespace

namespace entries::position {
extern constexpr PositionEntry learned = position_entry<Learned>({
    .name = "learned",
    .purpose = "A row a position, learned like tokens: GPT-2's.",
    .formula = "y[t] = x[t] + p[t]",
    .paper = "Radford et al. 2018 (GPT), section 3.1",
    .pitfalls = "There is no row past block_size: longer inputs are an error, or with position_overflow = "
                "'clamp' all read the "
                "last row.",
    .fields = "model.position_overflow",
});
}  // namespace entries::position

}  // namespace plumb
