#include "plumb/base/threads.h"

#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include <sched.h>

#include "plumb/base/error.h"

namespace plumb {
namespace {

thread_local int t_worker = 0;
thread_local const void* t_pool = nullptr;  // the state of the pool that made this thread
thread_local bool t_inside = false;

int processors_of_this_process() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace

struct ThreadPool::State {
  std::vector<std::thread> threads;
  std::mutex m;
  std::condition_variable wake, done;
  void (*call)(const void*, std::int64_t) = nullptr;
  const void* fn = nullptr;
  std::int64_t n = 0;
  std::atomic<std::int64_t> next{0};
  std::uint64_t generation = 0;
  std::size_t busy = 0;
  bool stop = false;
  std::exception_ptr error;

  void end() {
    {
      std::lock_guard lock(m);
      stop = true;
    }
    wake.notify_all();
    for (auto& t : threads) t.join();
  }

  void work() {
    t_inside = true;
    for (std::int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < n;) {
      try {
        call(fn, i);
      } catch (...) {
        std::lock_guard lock(m);
        if (!error) error = std::current_exception();
      }
    }
    t_inside = false;
  }

  void loop(int worker) {
    t_worker = worker;
    t_pool = this;
    std::uint64_t seen = 0;
    for (;;) {
      {
        std::unique_lock lock(m);
        wake.wait(lock, [&] { return stop || generation != seen; });
        if (stop) return;
        seen = generation;
      }
      work();
      std::lock_guard lock(m);
      if (--busy == 0) done.notify_one();
    }
  }
};

ThreadPool::ThreadPool(int n_threads) : s_(std::make_unique<State>()) {
  if (n_threads <= 0) n_threads = processors_of_this_process();
  try {
    for (int w = 1; w < n_threads; ++w) s_->threads.emplace_back([s = s_.get(), w] { s->loop(w); });
  } catch (const std::system_error&) {
    const auto started = s_->threads.size() + 1;
    s_->end();
    bad_input("this system starts no more than {} of {} threads; lower train.threads", started, n_threads);
  }
}

ThreadPool::~ThreadPool() { s_->end(); }

int ThreadPool::size() const { return static_cast<int>(s_->threads.size()) + 1; }

int ThreadPool::worker() const { return t_pool == s_.get() ? t_worker : 0; }

void ThreadPool::run_erased(std::int64_t n, void (*call)(const void*, std::int64_t), const void* fn) {
  if (n <= 0) return;
  if (t_inside || s_->threads.empty() || n == 1) {
    for (std::int64_t i = 0; i < n; ++i) call(fn, i);
    return;
  }
  {
    std::lock_guard lock(s_->m);
    s_->call = call;
    s_->fn = fn;
    s_->n = n;
    s_->next.store(0, std::memory_order_relaxed);
    s_->busy = s_->threads.size();
    s_->error = nullptr;
    ++s_->generation;
  }
  s_->wake.notify_all();
  s_->work();
  std::unique_lock lock(s_->m);
  s_->done.wait(lock, [&] { return s_->busy == 0; });
  s_->fn = nullptr;
  if (s_->error) std::rethrow_exception(s_->error);
}

}  // namespace plumb
