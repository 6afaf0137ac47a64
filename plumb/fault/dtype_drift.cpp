// From the block in the middle on, the stream is rounded to bf16 wherever it is read or written.
#include "plumb/fault/fault.h"
#include "plumb/tensor/rounding.h"

namespace plumb {
namespace {

template <class R>
class RoundedOp final : public Op<R> {
 public:
  OpInfo info() const override { return {.kind = "bf16_stream"}; }
  void forward(Run<R>& r) const override { round(r.in(0), {r.out(), true}); }
  void backward(Run<R>& r) const override { round(r.dout(), r.din(0)); }

 private:
  static void round(View<const R> x, Sink<R> y) {
    for (std::int64_t i = 0; y && i < x.rows; ++i)
      for (std::int64_t j = 0; j < x.cols; ++j) {
        const auto v = static_cast<R>(to_bf16(static_cast<float>(x.row(i)[j])));
        R& to = y.v.row(i)[j];
        to = y.overwrite ? v : to + v;
      }
  }
};

template <class R>
class DtypeDrift final : public GraphFault<R> {
 public:
  DtypeDrift(const DecoderSpec& s, double) : first_(s.n_layer / 2) {}
  Value at(Builder<R>& b, std::string_view point, Value v) override {
    const bool stream =
        is_block_point(point, ".in") || is_block_point(point, ".mid") || is_block_point(point, ".out");
    if (!stream || block_number(point) < first_) return v;
    const Value y = b.node1(std::make_unique<RoundedOp<R>>(), {.name = std::string(point) + ".fault",
                                                               .in = {v},
                                                               .out = {b.shape(v)},
                                                               .backward_reads_in = false,
                                                               .backward_reads_out = false});
    b.expected_var(y, b.expected_var(v));
    return y;
  }

 private:
  std::int64_t first_;
};

std::string dtype_drift_refuses(const Config& c) {
  return c.train.precision == "bf16_pure" ? "train.precision = \"bf16_pure\" has it in bf16 everywhere" : "";
}

}  // namespace

namespace entries::fault {
extern constexpr FaultEntry dtype_drift = graph_fault<DtypeDrift>({
    .name = "dtype_drift",
    .what = "from the block in the middle on the stream is held in bf16",
    .refuses = dtype_drift_refuses,
});
}  // namespace entries::fault

}  // namespace plumb
