// A resumed run starts with an empty optimiser. Nothing is wrong until it is resumed.
#include "plumb/fault/fault.h"

namespace plumb {
namespace entries::fault {
extern constexpr FaultEntry resume_mismatch = {
    .name = "resume_mismatch",
    .what = "the optimiser's state and step count are lost on resume",
    .run = [](RunFaults& r, const Config&, double) { r.forget_optimizer = true; },
};
}  // namespace entries::fault

}  // namespace plumb
