// Norms that reduce in bf16 and fp16: where they agree with float, and where they break.
#include "plumb/kernel/narrow_norm.h"

#include <gtest/gtest.h>

#include <cmath>

#include "plumb/tensor/rounding.h"
#include "plumb/kernel/rows.h"
#include "tests/support/reference.h"

namespace plumb {
namespace {

using test::Matrix;

struct Ran {
  Matrix<float> y, mean{1, 1}, rstd{1, 1};
};
Ran run(Format f, bool centred, const std::vector<float>& row, double eps) {
  const auto n = static_cast<std::int64_t>(row.size());
  Matrix<float> x(1, n);
  x.data = row;
  Ran r;
  r.y = Matrix<float>(1, n);
  narrow_norm_forward(f, centred, std::as_const(x).view(), {}, {}, eps, r.y.view(), r.mean.view(),
                      r.rstd.view());
  return r;
}

// Numbers that every format holds, sums too: nothing is rounded but the root, and the norm is the wide one's
// within its unit.
TEST(NarrowNorm, IsTheNormWhereNothingIsLost) {
  const std::vector<float> row{2, 4, 6, 8};
  for (const auto& [f, unit] :
       {std::pair{Format::bf16, 0x1p-8}, {Format::fp16, 0x1p-11}, {Format::fp32, 0x1p-24}}) {
    const Ran layer = run(f, true, row, 0), rms = run(f, false, row, 0);
    EXPECT_EQ(layer.mean.data[0], 5.0F);
    for (std::size_t j = 0; j < 4; ++j) {
      EXPECT_NEAR(layer.y.data[j], (row[j] - 5.0) / std::sqrt(5.0), 3 * unit * 1.35);
      EXPECT_NEAR(rms.y.data[j], row[j] / std::sqrt(30.0), 3 * unit * 1.5);
    }
  }
}

// A running sum in bf16 stops where an element is less than half its unit: 1 + 1 + … stays at 256.
TEST(NarrowNorm, ARunningSumInBfloat16StopsAt256) {
  const std::vector<float> ones(1024, 1.0F);
  EXPECT_EQ(run(Format::bf16, true, ones, 1e-5).mean.data[0], 0.25F) << "256 / 1024";
  EXPECT_EQ(run(Format::fp16, true, ones, 1e-5).mean.data[0], 1.0F);
  EXPECT_NEAR(run(Format::bf16, false, ones, 1e-5).rstd.data[0], 2.0F, 0.02) << "of a mean square of 0.25";
}

// fp16 squares overflow from 256 on: rstd is 0, and the row with it.
TEST(NarrowNorm, SquaresOverflowInHalfPrecisionFrom256) {
  EXPECT_GT(run(Format::fp16, false, {255, 0}, 1e-5).rstd.data[0], 0);
  const Ran lost = run(Format::fp16, false, {256, 0}, 1e-5);
  EXPECT_EQ(lost.rstd.data[0], 0);
  EXPECT_EQ(lost.y.data[0], 0);
  EXPECT_GT(run(Format::bf16, false, {256, 0}, 1e-5).rstd.data[0], 0) << "bf16 has float's range";
}

// eps = 1e-8 is 0 in fp16: a row of zeros then divides by zero, where 1e-5 keeps it finite.
TEST(NarrowNorm, AnEpsBelowTheFormatIsNone) {
  EXPECT_TRUE(std::isinf(run(Format::fp16, true, {0, 0}, 1e-8).rstd.data[0]));
  EXPECT_TRUE(std::isnan(run(Format::fp16, true, {0, 0}, 1e-8).y.data[0]));
  EXPECT_EQ(run(Format::fp16, true, {0, 0}, 1e-5).y.data[0], 0);
  EXPECT_EQ(run(Format::bf16, true, {0, 0}, 1e-8).y.data[0], 0);
}

}  // namespace
}  // namespace plumb
