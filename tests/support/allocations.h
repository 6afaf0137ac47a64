// Counting heap allocations of ours. The test executable replaces operator new; a call that comes from inside
// oneDNN's library (told by its return address) is oneDNN's own and is not counted.
#pragma once
#include <cstdint>
#include <functional>

namespace plumb::test {

/// How many times operator new was called, on any thread, while `work` ran, calls out of oneDNN's code left
/// out. Not nestable. malloc called directly (by C libraries, OpenMP's runtime) is not seen.
std::int64_t allocations_of_ours(const std::function<void()>& work);
/// The same, but only the calls out of oneDNN's code: shows that the telling-apart works.
std::int64_t allocations_of_onednn(const std::function<void()>& work);

}  // namespace plumb::test
