// The order of the samples comes from the machine's random device: the same seed gives other numbers.
#include "plumb/fault/fault.h"

namespace plumb {
namespace entries::fault {
extern constexpr FaultEntry nondeterministic = {
    .name = "nondeterministic",
    .what = "the same seed gives other numbers each time",
    .run = [](RunFaults& r, const Config&, double) { r.random_order = true; },
};
}  // namespace entries::fault

}  // namespace plumb
