// Positions are kept in a format too narrow for them: 2^round(2 s) neighbours have the same one, as 128 and
// 129 have in a format of 7 bits of significand, or 256 and 257 in bf16.
#include <cmath>
#include "plumb/fault/fault.h"

namespace plumb {
namespace entries::fault {
extern constexpr FaultEntry position_precision = {
    .name = "position_precision",
    .what = "neighbouring positions are rounded to the same number",
    .strength = "2^round(2 strength) of them",
    .low = 0.5,
    .high = 8,
    .refuses = refuses_without_positions,
    .spec =
        [](DecoderSpec& s, double strength) {
          if (s.block_size > 1) s.flaws.position_step = std::int64_t{1} << std::llround(2 * strength);
        },
};
}  // namespace entries::fault

}  // namespace plumb
