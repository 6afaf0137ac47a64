// Independent pieces of work, some at a time.
#pragma once
#include <atomic>
#include <functional>
#include <mutex>

#include "plumb/base/threads.h"

namespace plumb {

/// fn(0) … fn(n-1), `at_a_time` side by side (0: as many as there are processors), in any order. `progress` is told how many are
/// done before each, one call at a time. After an exception no further piece begins; the first one is thrown again here.
template <class F>
void side_by_side(std::size_t n, int at_a_time,
                  const std::function<void(std::size_t done, std::size_t all)>& progress, const F& fn) {
  ThreadPool pool(at_a_time);
  std::mutex mutex;
  std::atomic<bool> stop = false;
  std::size_t done = 0;
  pool.run(static_cast<std::int64_t>(n), [&](std::int64_t i) {
    if (stop) return;
    try {
      if (const std::lock_guard lock(mutex); progress) progress(done, n);
      fn(static_cast<std::size_t>(i));
      const std::lock_guard lock(mutex);
      ++done;
    } catch (...) {
      stop = true;
      throw;
    }
  });
}

}  // namespace plumb
