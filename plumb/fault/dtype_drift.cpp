// From the block in the middle on, the stream has been through bf16.
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
  DtypeDrift(const DecoderSpec& s, double) : point_(middle_block(s) + ".in") {}
  Value at(Builder<R>& b, std::string_view point, Value v) override {
    if (point != point_) return v;
    return b.node1(std::make_unique<RoundedOp<R>>(), {.name = point_ + ".fault",
                                                      .in = {v},
                                                      .out = {b.shape(v)},
                                                      .backward_reads_in = false,
                                                      .backward_reads_out = false});
  }

 private:
  std::string point_;
};

}  // namespace

namespace entries::fault {
extern constexpr FaultEntry dtype_drift = graph_fault<DtypeDrift>({
    .name = "dtype_drift",
    .what = "the stream goes through bf16 at one block",
});
}  // namespace entries::fault

}  // namespace plumb
