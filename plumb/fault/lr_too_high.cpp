// The peak learning rate is 100^s times what the config says.
#include <cmath>
#include "plumb/fault/fault.h"

namespace plumb {
namespace entries::fault {
extern constexpr FaultEntry lr_too_high = {
    .name = "lr_too_high",
    .what = "the learning rate is far too high",
    .strength = "100^strength times what the config says",
    .high = 4,
    .config = [](Config& c, double strength) { scale_lr(c, std::pow(100, strength)); },
};
}  // namespace entries::fault

}  // namespace plumb
