// Rounding floats to what a narrower format can hold, to nearest, ties to even (IEEE 754-2019,
// section 4.3.1).
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>

#include "plumb/base/precision.h"
#include "plumb/tensor/view.h"

namespace plumb {

/// bfloat16 keeps 8 bits of significand and float's range; NaN stays NaN.
inline float to_bf16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return x;
  return std::bit_cast<float>((bits + 0x7fffU + ((bits >> 16) & 1U)) & 0xffff0000U);
}

/// binary16 keeps 11 bits of significand between 2^-14 and 65504, multiples of 2^-24 below; from 65520 on it
/// is infinite.
inline float to_fp16(float x) {
  const float size = std::abs(x);
  if (size < 0x1p-14F) return std::copysign((size + 0x1.8p-1F) - 0x1.8p-1F, x);  // the sum's unit is 2^-24
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7fffffffU) >= 0x7f800000U) return x;
  const auto rounded = std::bit_cast<float>((bits + 0xfffU + ((bits >> 13) & 1U)) & 0xffffe000U);
  return std::abs(rounded) > 65504.0F ? std::copysign(INFINITY, x) : rounded;
}

inline float rounded(Format f, float x) {
  return f == Format::bf16 ? to_bf16(x) : f == Format::fp16 ? to_fp16(x) : x;
}

/// Every element in place.
void round_to(Format, View<float>);

}  // namespace plumb
