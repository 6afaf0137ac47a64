// The angles of rotary positions.
#pragma once
#include <vector>

#include "plumb/spec/spec.h"

namespace plumb {

/// Pair i of a position p turns by p frequency[i]; cos and sin are multiplied by `magnitude` (YaRN; elsewhere
/// 1).
struct RopeAngles {
  std::vector<double> frequency;
  double magnitude = 1;
};

/// For heads of which `d` columns turn (even), in a sequence of `length` positions (dynamic NTK depends on
/// it).
RopeAngles rope_angles(const DecoderSpec::Rope&, std::int64_t d, std::int64_t length);

/// The base of dynamic NTK at this length.
double dynamic_ntk_base(const DecoderSpec::Rope&, std::int64_t d, std::int64_t length);

}  // namespace plumb
