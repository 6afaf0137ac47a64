// What the head reads is (1 - s) x + s: at 1 it is a vector of ones at every position, so that the head can
// learn how often a token comes, and nothing of where.
#include "plumb/fault/fault.h"
#include "plumb/kernel/rows.h"

namespace plumb {
namespace {

template <class R>
class MixedWithOnesOp final : public Op<R> {
 public:
  explicit MixedWithOnesOp(double s) : s_(static_cast<R>(s)) {}
  OpInfo info() const override { return {.kind = "mixed_with_ones"}; }
  void forward(Run<R>& r) const override {
    for (std::int64_t i = 0; i < r.in(0).rows; ++i)
      for (std::int64_t j = 0; j < r.in(0).cols; ++j) r.out().row(i)[j] = (1 - s_) * r.in(0).row(i)[j] + s_;
  }
  void backward(Run<R>& r) const override { pass(static_cast<double>(1 - s_), r.dout(), r.din(0)); }

 private:
  R s_;
};

template <class R>
class ConstantOutput final : public GraphFault<R> {
 public:
  ConstantOutput(const DecoderSpec&, double strength) : s_(strength) {}
  Value at(Builder<R>& b, std::string_view point, Value v) override {
    if (point != "final_norm") return v;
    return b.node1(std::make_unique<MixedWithOnesOp<R>>(s_), {.name = "final_norm.fault",
                                                              .in = {v},
                                                              .out = {b.shape(v)},
                                                              .backward_reads_in = false,
                                                              .backward_reads_out = false});
  }

 private:
  double s_;
};

}  // namespace

namespace entries::fault {
extern constexpr FaultEntry constant_output = graph_fault<ConstantOutput>({
    .name = "constant_output",
    .what = "the output does not depend on what the model reads",
    .strength = "the share of a constant in what the head reads",
});
}  // namespace entries::fault

}  // namespace plumb
