// The peak learning rate is 1000^s times below what the config says.
#include <cmath>
#include "plumb/fault/fault.h"

namespace plumb {
namespace entries::fault {
extern constexpr FaultEntry lr_too_low = {
    .name = "lr_too_low",
    .what = "the learning rate is far too low",
    .strength = "1000^strength times below what the config says",
    .high = 4,
    .config = [](Config& c, double strength) { scale_lr(c, std::pow(1000, -strength)); },
};
}  // namespace entries::fault

}  // namespace plumb
