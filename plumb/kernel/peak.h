// What this processor can do: the limit beside which our times are printed.
#pragma once
#include <string>

namespace plumb {

/// The vector instruction set that our kernels run with here: "AVX2".
std::string simd_target();

/// Seconds for `rounds` rounds of independent fused multiply-adds in float, on the calling thread. FLOPs: `*flops`.
double fma_seconds(long rounds, double* flops);

}  // namespace plumb
