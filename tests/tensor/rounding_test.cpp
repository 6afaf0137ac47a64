// The formats against their definitions, and the sources' claims about them (ERRATA A13, A26).
#include "plumb/tensor/rounding.h"

#include <gtest/gtest.h>

#include <limits>

namespace plumb {
namespace {

// The nearest multiple of the format's unit at x, ties to even, in double: the definition, with nothing of
// the bit tricks.
double nearest(double x, int significand, int lowest_exponent) {
  if (x == 0) return 0;
  int e = 0;
  std::frexp(x, &e);
  const double unit = std::ldexp(1.0, std::max(e - significand, lowest_exponent));
  return std::nearbyint(x / unit) * unit;
}

TEST(Rounding, IsToTheNearestAndTiesGoToEven) {
  std::uint32_t bits = 12345;
  for (int i = 0; i < 200000; ++i) {
    bits = bits * 1664525U + 1013904223U;
    const auto x = std::bit_cast<float>(bits);
    if (!std::isfinite(x)) continue;
    const double bf = nearest(x, 8, -133), half = nearest(x, 11, -24);
    if (std::abs(bf) < 0x1p128) {
      ASSERT_EQ(to_bf16(x), static_cast<float>(bf)) << x;
    }
    const float want = std::abs(half) < 65536 ? static_cast<float>(half) : std::copysign(INFINITY, x);
    ASSERT_EQ(to_fp16(x), want) << x;
  }
}

TEST(Rounding, Edges) {
  EXPECT_EQ(to_fp16(65504.0F), 65504.0F);
  EXPECT_EQ(to_fp16(65519.9F), 65504.0F);
  EXPECT_EQ(to_fp16(65520.0F), INFINITY);
  EXPECT_EQ(to_fp16(-1e9F), -INFINITY);
  EXPECT_EQ(to_fp16(0x1p-24F), 0x1p-24F);
  EXPECT_EQ(to_fp16(0x1p-25F), 0.0F) << "a tie with 0, which is even";
  EXPECT_EQ(to_fp16(0x1.8p-25F), 0x1p-24F);
  EXPECT_EQ(to_bf16(1.0F + 0x1p-8F), 1.0F) << "a tie";
  EXPECT_EQ(to_bf16(1.0F + 0x1.8p-7F), 1.0F + 0x1p-6F);
  EXPECT_EQ(to_bf16(std::numeric_limits<float>::max()), INFINITY);
  for (const auto f : {to_bf16, to_fp16}) {
    EXPECT_TRUE(std::isnan(f(NAN)));
    EXPECT_EQ(f(INFINITY), INFINITY);
    EXPECT_EQ(f(0.0F), 0.0F);
    EXPECT_TRUE(std::signbit(f(-0.0F)));
  }
}

// A26: 1e-5 is no zero in either format; 1e-8 and 1e-12 are zero in fp16. A13: fp16 ends at 65504, so 14.1 is
// far from its range.
TEST(Rounding, WhatTheSourcesSayOfEps) {
  EXPECT_NEAR(to_bf16(1e-5F), 1.00136e-5, 1e-10);
  EXPECT_GT(to_fp16(1e-5F), 0.0F);
  EXPECT_LT(to_fp16(1e-5F), 0x1p-14F) << "a subnormal";
  EXPECT_EQ(to_fp16(1e-8F), 0.0F);
  EXPECT_EQ(to_fp16(1e-12F), 0.0F);
  EXPECT_GT(to_bf16(1e-12F), 0.0F);
  EXPECT_NEAR(to_fp16(14.1F), 14.1, 0.004);
  // In bf16 the sum var + 1e-5 is var from about 4e-3 on: half its unit, 2^-8 of the value, is more than 1e-5
  // there.
  EXPECT_EQ(to_bf16(to_bf16(4e-3F) + to_bf16(1e-5F)), to_bf16(4e-3F));
  EXPECT_NE(to_bf16(to_bf16(2e-3F) + to_bf16(1e-5F)), to_bf16(2e-3F));
}

}  // namespace
}  // namespace plumb
