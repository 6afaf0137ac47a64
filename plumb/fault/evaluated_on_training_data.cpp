// The validation loss is taken over the first training tokens, as many as the validation split has.
#include "plumb/fault/fault.h"

namespace plumb {
namespace entries::fault {
extern constexpr FaultEntry evaluated_on_training_data = {
    .name = "evaluated_on_training_data",
    .what = "the validation loss is measured on training data",
    .run = [](RunFaults& r, const Config&, double) { r.validate_on_training = true; },
};
}  // namespace entries::fault

}  // namespace plumb
