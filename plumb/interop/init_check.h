// Were the matrices that write to the residual stream drawn smaller by 1/√(2·n_layer)? Only weights that
// still look drawn can tell.
#pragma once
#include <string>

#include "plumb/interop/weight_stats.h"

namespace plumb {

struct InitCheck {
  enum class Verdict {
    scaled,
    plain,
    both,     // too small to tell
    trained,  // not drawn, or in a way that is not known here
    set,      // what writes to the stream is zero
    other,    // the rest looks drawn, and what writes to the stream does not, or by an unusual way of its own
    nothing   // nothing was measured
  };
  Verdict verdict = Verdict::nothing;
  std::string because;
};

/// Ten ways of drawing are tried on the matrices of the layers: one std for all, std ∝ 1/√fan_in, ∝
/// 1/√fan_out and ∝ 1/√(fan_in + fan_out), the last with q, k and v apart and with their fused matrix as it
/// is stored; each without and with 1/√(2·n_layer) on attention output and FFN output. One number (the
/// overall std) is fitted, weighted by elements; a way fits when each matrix's std lies within max(5/√(2n), 1
/// %) of it and each mean within 5/√n stds of zero. A std from n normal draws has a relative sampling error
/// of 1/√(2n) (a uniform distribution's is smaller), so five of these, for stds and means, make the chance of
/// a false alarm about 2e-4 for two hundred matrices; 1 % is for rounding to bf16 and truncated draws. The
/// two kinds differ by at least √2 (one layer), which is thirty times that. No way fits, or a matrix has std
/// 0: the weights were trained, or drawn in another way. But where the other matrices fit a way, and the
/// outputs fit one by themselves, these were drawn too: Xavier's, He's, LeCun's and torch.nn.Linear's ways
/// have a std of their own, which tells whether 1/√(2·n_layer) is in it.
InitCheck check_init(const WeightStats& stats, std::int64_t n_layer);

}  // namespace plumb
