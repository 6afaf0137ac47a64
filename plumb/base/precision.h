// Storage formats narrower than float, emulated: values are floats that the format can hold.
#pragma once
#include <cstdint>
#include <string_view>

namespace plumb {

/// fp32: as computed. bf16: products read their operands in bfloat16 and add in float; everything else is
/// float. bf16_pure, fp16_pure: whatever is stored (parameters, activations, gradients, the optimiser's
/// moments) is in that format; ops compute in float inside.
enum class Precision : std::uint8_t { fp32, bf16, bf16_pure, fp16_pure };
inline constexpr std::string_view precision_names[] = {"fp32", "bf16", "bf16_pure", "fp16_pure"};

/// The format of what is stored, or of what a product reads.
enum class Format : std::uint8_t { fp32, bf16, fp16 };

inline Format storage_format(Precision p) {
  return p == Precision::bf16_pure ? Format::bf16 : p == Precision::fp16_pure ? Format::fp16 : Format::fp32;
}
inline Format product_format(Precision p) { return p == Precision::bf16 ? Format::bf16 : storage_format(p); }

/// One of precision_names; throws for another.
Precision precision_of(std::string_view name);

}  // namespace plumb
