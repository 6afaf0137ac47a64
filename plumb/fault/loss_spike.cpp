// In the one step in the middle of the run the learning rate is 1 + 99 s times too high.
#include "plumb/fault/fault.h"

namespace plumb {
namespace entries::fault {
extern constexpr FaultEntry loss_spike = {
    .name = "loss_spike",
    .what = "one update in the middle of the run is far too large",
    .strength = "its learning rate is multiplied by 1 + 99 strength",
    .high = 1e6,
    .run = [](RunFaults& r, const Config&, double strength) { r.spike = 1 + 99 * strength; },
};
}  // namespace entries::fault

}  // namespace plumb
