// The mask is shifted: position i sees keys up to i + s.
#include <cmath>
#include "plumb/fault/fault.h"

namespace plumb {
namespace entries::fault {
extern constexpr FaultEntry causal_leak = {
    .name = "causal_leak",
    .what = "each position sees the tokens that it is to predict",
    .strength = "how many positions ahead, rounded",
    .low = 1,
    .high = 1 << 20,
    .spec = [](DecoderSpec& s, double strength) { s.flaws.mask_ahead = std::llround(strength); },
};
}  // namespace entries::fault

}  // namespace plumb
