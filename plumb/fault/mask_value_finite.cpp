// Masked scores are a finite number: the softmax gives the future a weight. At strength s it is -(1 - s) / s.
#include "plumb/fault/fault.h"

namespace plumb {
namespace entries::fault {
extern constexpr FaultEntry mask_value_finite = {
    .name = "mask_value_finite",
    .what = "masked scores are a finite number, not -inf",
    .strength = "they are -(1 - strength) / strength: 0 at 1",
    .low = 1e-6,
    .spec =
        [](DecoderSpec& s, double strength) {
          s.flaws.mask_finite = true;
          s.flaws.mask_value = -(1 - strength) / strength;
        },
};
}  // namespace entries::fault

}  // namespace plumb
