// As if the table of positions were shorter than a block: all positions past that end read one row.
#include <algorithm>
#include <cmath>
#include "plumb/fault/fault.h"

namespace plumb {
namespace entries::fault {
extern constexpr FaultEntry position_out_of_range = {
    .name = "position_out_of_range",
    .what = "positions past the end of the table read its last row",
    .strength = "half of this share of a block lies past the end",
    .high = 2,
    .refuses = refuses_without_positions,
    .spec =
        [](DecoderSpec& s, double strength) {
          const double rows = static_cast<double>(s.block_size) * (1 - strength / 2);
          const std::int64_t last = std::max<std::int64_t>(0, std::llround(rows) - 1);
          if (last < s.block_size - 1) s.flaws.position_last = last;
        },
};
}  // namespace entries::fault

}  // namespace plumb
