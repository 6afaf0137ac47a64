// The time that durations are measured with.
#pragma once
#include <chrono>

namespace plumb {

/// Seconds of a clock that never jumps, from an arbitrary start.
inline double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace plumb
