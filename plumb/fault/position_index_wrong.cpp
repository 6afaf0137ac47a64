// Positions wrap around within a block: t reads row t mod (block_size / 4^s).
#include <algorithm>
#include <cmath>
#include "plumb/fault/fault.h"

namespace plumb {
namespace entries::fault {
extern constexpr FaultEntry position_index_wrong = {
    .name = "position_index_wrong",
    .what = "positions wrap around within a block",
    .strength = "after block_size / 4^strength positions",
    .high = 8,
    .refuses = refuses_without_positions,
    .spec =
        [](DecoderSpec& s, double strength) {
          const double wrap = static_cast<double>(s.block_size) / std::pow(4, strength);
          const std::int64_t at = std::max<std::int64_t>(1, std::llround(wrap));
          if (at < s.block_size) s.flaws.position_wrap = at;
        },
};
}  // namespace entries::fault

}  // namespace plumb
