// Sinusoidal absolute positions. Vaswani et al. 2017, arXiv 1706.03762, section 3.5.
//
//   y[b, t] = x[b, t] + s[t];   s[t][2i] = sin(t / 10000^(2i/C)),  s[t][2i + 1] = cos(t / 10000^(2i/C))
//
// Shapes: x, y (B, T, C). No parameters; dx as its sink says. A position past block_size has its numbers too.
#include <cmath>

#include "plumb/kernel/rows.h"
#include "plumb/position/position.h"

namespace plumb {
namespace {

template <class R>
class AddSinusoidsOp final : public Op<R> {
 public:
  AddSinusoidsOp(std::int64_t block, std::int64_t channels) : block_(block), channels_(channels) {
    rows_.resize(static_cast<std::size_t>(block * channels));
    for (std::int64_t t = 0; t < block; ++t) write_row(t, rows_.data() + t * channels);
  }
  OpInfo info() const override { return {.kind = "add_positions"}; }

  std::size_t prepare(const Run<R>&, ProductCache<R>&) override {
    return static_cast<std::size_t>(channels_) * sizeof(R);
  }

  void forward(Run<R>& r) const override {
    const View<const R> x = r.in(0);
    const std::int64_t t = x.rows / r.sequences();
    for (std::int64_t i = 0; i < x.rows; ++i) {
      const std::int64_t position = r.position() + i % t;
      const R* s = rows_.data() + position * channels_;
      if (position >= block_) {  // decoding, one position a call
        write_row(position, static_cast<R*>(r.scratch()));
        s = static_cast<const R*>(r.scratch());
      }
      axpby<R>(1, x.slice(i, 1), 1, View<const R>{s, 1, channels_, channels_}, r.out().slice(i, 1));
    }
  }

  void backward(Run<R>& r) const override { pass(1, r.dout(), r.din(0)); }

 private:
  void write_row(std::int64_t t, R* row) const {
    for (std::int64_t j = 0; j < channels_; ++j) {
      const double pair = static_cast<double>(j / 2 * 2) / static_cast<double>(channels_);
      const double angle = static_cast<double>(t) * std::pow(10000.0, -pair);
      row[j] = static_cast<R>(j % 2 == 0 ? std::sin(angle) : std::cos(angle));
    }
  }
  std::int64_t block_, channels_;
  std::vector<R> rows_;
};

template <class R>
class Sinusoidal final : public Position<R> {
 public:
  explicit Sinusoidal(const DecoderSpec&) {}
  Value embed(Builder<R>& b, Value x) const override {
    const Shape shape = b.shape(x);
    const Value y = b.node1(
        std::make_unique<AddSinusoidsOp<R>>(shape.dims[1].n, shape.cols()),
        {.name = "pos", .in = {x}, .out = {shape}, .backward_reads_in = false, .backward_reads_out = false});
    b.expected_var(y, b.expected_var(x) + 0.5);  // sin^2 + cos^2 = 1 in each pair
    return y;
  }
};

}  // namespace

namespace entries::position {
extern constexpr PositionEntry sinusoidal = position_entry<Sinusoidal>({
    .name = "sinusoidal",
    .purpose = "Fixed waves of many lengths, as the first Transformer had: nothing to learn, defined at any "
               "position.",
    .formula = "y[t] = x[t] + s[t], s[t][2i] = sin(t / 10000^(2i/C)), s[t][2i+1] = cos of the same",
    .paper = "Vaswani et al. 2017, arXiv 1706.03762, section 3.5",
    .pitfalls = "Its variance is 1/2: embeddings of std 0.02 drown in it. Set model.embedding_scale = "
                "'sqrt_d', as the "
                "paper has it.",
});
}  // namespace entries::position

}  // namespace plumb
