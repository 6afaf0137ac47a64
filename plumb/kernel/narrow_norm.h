// LayerNorm and RMSNorm whose reductions happen in the storage format, to show what that breaks.
#pragma once
#include "plumb/base/precision.h"
#include "plumb/tensor/view.h"

namespace plumb {

/// As layer_norm_forward (rows.h; `centred`) or rms_norm_forward, but the sum of a row, the sum of its
/// squares, the mean, the variance plus eps, and 1/root are each rounded to the format as they are formed:
/// running sums, one element after the other. mean is not touched unless `centred`. The backward kernels take
/// mean and rstd as they are.
void narrow_norm_forward(Format, bool centred, View<const float> x, View<const float> gamma,
                         View<const float> beta, double eps, View<float> y, View<float> mean,
                         View<float> rstd);

}  // namespace plumb
