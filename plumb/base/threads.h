// A fixed pool of workers. The caller is worker 0.
#pragma once
#include <cstdint>
#include <memory>

namespace plumb {

/// Runs numbered pieces of work. Which worker runs which piece is not fixed, so nothing that is computed may depend on
/// it; only scratch memory may be chosen by `worker()`.
class ThreadPool {
 public:
  /// `n_threads` workers; 0: one per processor of this process.
  explicit ThreadPool(int n_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const;
  /// Calls fn(0) … fn(n-1), in order of dispatch, and returns when all are done. Inside a piece of this or another pool
  /// it runs serially on the calling thread. The first exception is thrown again here after all pieces ended.
  template <class F>
  void run(std::int64_t n, const F& fn) {
    run_erased(n, [](const void* f, std::int64_t i) { (*static_cast<const F*>(f))(i); }, &fn);
  }
  /// Which worker of this pool the calling thread is; 0 for a thread that is none of its own.
  int worker() const;

 private:
  // Not std::function: that would allocate for every closure of more than two words.
  void run_erased(std::int64_t n, void (*call)(const void*, std::int64_t), const void* fn);
  struct State;
  std::unique_ptr<State> s_;
};

}  // namespace plumb
