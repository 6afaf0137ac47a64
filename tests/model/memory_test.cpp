// The plan says beforehand what it needs, and a step allocates nothing of ours.
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "plumb/optim/optim.h"
#include "tests/support/allocations.h"
#include "tests/support/decoder_rig.h"

namespace plumb {
namespace {

// A sanitizer's shadow memory grows with ours (five times as much under TSan): there is nothing to compare
// with there.
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
std::size_t resident_bytes() {
  std::ifstream f("/proc/self/statm");
  std::size_t size = 0, resident = 0;
  f >> size >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

TEST(PlanMemory, IsWhatTheProcessGrowsBy) {
  DecoderSpec s;  // the chapter's model and batch
  {               // oneDNN's and the allocator's own first-use growth is not the plan's
    DecoderSpec warm = s;
    warm.n_layer = 1;
    test::DecoderRig<float> rig(warm, {.batch = 32, .block = 64}, 2);
    rig.step();
  }
  const std::size_t before = resident_bytes();
  test::DecoderRig<float> rig(s, {.batch = 32, .block = 64}, 2);
  const auto optimizer = choose_optimizer(optim_table(), "adamw").make<float>(rig.store.layout(), {}, 2);
  for (int i = 0; i < 3; ++i) {
    rig.step();
    optimizer->update(rig.store, rig.plan.grads(), rig.plan.grad_norm(), {1e-3, 1}, rig.pool);
  }
  const auto grown = static_cast<double>(resident_bytes() - before);
  const auto said = static_cast<double>(rig.plan.bytes() + rig.store.bytes() + optimizer->bytes());
  EXPECT_NEAR(grown / said, 1.0, 0.05) << "said " << said / 1e6 << " MB, grew by " << grown / 1e6 << " MB";
}

#endif

TEST(PlanMemory, StepsTwoToAHundredAllocateNothingOfOurs) {
  test::DecoderRig<float> rig(test::small_spec(), {.batch = 12, .block = 16, .shard_tokens = 32}, 2);
  const auto optimizer = choose_optimizer(optim_table(), "adamw").make<float>(rig.store.layout(), {}, 2);
  auto step = [&] {
    rig.step({optimizer->steps(), 0});
    optimizer->update(rig.store, rig.plan.grads(), rig.plan.grad_norm(), {1e-3, 1}, rig.pool);
    rig.plan.commit();
  };
  step();
  EXPECT_EQ(test::allocations_of_ours([&] {
              for (int i = 2; i <= 100; ++i) step();
            }),
            0);
}

}  // namespace
}  // namespace plumb
