// Batch norm that goes on with the statistics of the batch when it is evaluated, as model.train() left on
// does.
#include "plumb/fault/fault.h"

namespace plumb {
namespace entries::fault {
extern constexpr FaultEntry batchnorm_in_eval = {
    .name = "batchnorm_in_eval",
    .what = "batch norm is evaluated in training mode",
    .refuses = refuses_without_norm,
    .config = [](Config& c, double) { c.model.norm = "batch"; },
    .run = [](RunFaults& r, const Config&, double) { r.evaluate_in_training_mode = true; },
};
}  // namespace entries::fault

}  // namespace plumb
