// The training tokens are cut to the share 0.02^s, at least two blocks: the model can learn them by heart.
#include <cmath>
#include "plumb/fault/fault.h"

namespace plumb {
namespace entries::fault {
extern constexpr FaultEntry overfitting = {
    .name = "overfitting",
    .what = "far too little to train on: the training loss goes on falling, the validation loss rises",
    .strength = "0.02^strength of the training tokens are left, two blocks at least",
    .high = 4,
    .run = [](RunFaults& r, const Config&, double strength) { r.train_share = std::pow(0.02, strength); },
};
}  // namespace entries::fault

}  // namespace plumb
