#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "plumb/kernel/matmul.h"

namespace plumb {
namespace {

std::atomic<std::uintptr_t> stack_low, stack_high;
std::atomic<int> handled, elsewhere;

void look_where_we_are(int) {
  const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  ++handled;
  if (here < stack_low || here >= stack_high) ++elsewhere;
}

// oneDNN's generated AVX2 code points the stack pointer into its own heap workspace: a handler that ran there
// would have its frame written over whatever lies below. (Without HoldSignals this test breaks the heap.)
TEST(MatmulSignals, AHandlerNeverRunsOnAnotherStackThanTheThreads) {
  struct sigaction look = {}, before = {};
  look.sa_handler = look_where_we_are;
  sigaction(SIGUSR1, &look, &before);
  std::atomic<bool> ready{false}, stop{false};
  std::thread worker([&] {
    pthread_attr_t attr;
    void* low = nullptr;
    std::size_t size = 0;
    pthread_getattr_np(pthread_self(), &attr);
    pthread_attr_getstack(&attr, &low, &size);
    pthread_attr_destroy(&attr);
    stack_low = reinterpret_cast<std::uintptr_t>(low);
    stack_high = stack_low + size;
    const ProductShape shape{.m = 512, .n = 128, .k = 256};
    const Product<float> product(shape);
    std::vector<float> a(512 * 256, 1), b(256 * 128, 1), c(512 * 128),
        scratch(product.scratch_bytes() / 4 + 16);
    void* aligned = scratch.data();
    std::size_t space = scratch.size() * 4;
    std::align(64, product.scratch_bytes(), aligned, space);
    ready = true;
    while (!stop) product.run(a.data(), b.data(), nullptr, c.data(), aligned);
    EXPECT_EQ(c.front(), 256);
  });
  while (!ready) std::this_thread::yield();
  for (int i = 0; i < 3000; ++i) {
    pthread_kill(worker.native_handle(), SIGUSR1);
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  stop = true;
  worker.join();
  sigaction(SIGUSR1, &before, nullptr);
  EXPECT_GT(handled, 100);
  EXPECT_EQ(elsewhere, 0);
}

}  // namespace
}  // namespace plumb
