// The same bits on any number of threads, with hooks on or off, with and without recomputation, for any micro-batching.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/support/decoder_rig.h"

namespace plumb {
namespace {

using test::DecoderRig;
using test::small_spec;

struct SeeAll final : Hook<float> {
  std::atomic<int> looks{0};
  bool wants(std::string_view point, Dir) const override { return !point.ends_with(".scores") && !point.ends_with(".weights"); }
  void at(std::string_view, Dir, View<float>, int) override { ++looks; }
};

std::string hash_of(PlanOptions o, int threads, std::vector<Hook<float>*> hooks = {}) {
  DecoderRig<float> rig(small_spec(), o, threads, std::move(hooks));
  rig.step();
  return rig.grad_hash();
}

constexpr PlanOptions seven_shards{.batch = 13, .block = 16, .shard_tokens = 32};  // the last one is shorter

TEST(Determinism, AnyNumberOfThreads) {
  const std::string one = hash_of(seven_shards, 1);
  EXPECT_EQ(hash_of(seven_shards, 2), one);
  EXPECT_EQ(hash_of(seven_shards, 4), one);
}

TEST(Determinism, BesideAnotherRun) {
  const std::string alone = hash_of(seven_shards, 2);
  std::atomic<bool> stop{false};
  std::thread other([&] {
    DecoderRig<float> rig(small_spec(), seven_shards, 2, {}, 7);
    while (!stop) rig.step();
  });
  const std::string beside = hash_of(seven_shards, 2);
  stop = true;
  other.join();
  EXPECT_EQ(beside, alone);
}

TEST(Determinism, HooksChangeNothing) {
  SeeAll see;
  EXPECT_EQ(hash_of(seven_shards, 2, {&see}), hash_of(seven_shards, 2));
  EXPECT_GT(see.looks.load(), 100);
}

TEST(Determinism, RecomputationChangesNothingButMemory) {
  DecoderRig<float> keep(small_spec(6), seven_shards, 2);
  PlanOptions o = seven_shards;
  o.recompute = 1;
  DecoderRig<float> again(small_spec(6), o, 2);
  keep.step();
  again.step();
  EXPECT_EQ(again.grad_hash(), keep.grad_hash());
  EXPECT_LT(again.plan.schedule().arena, keep.plan.schedule().arena * 7 / 10);
}

TEST(Determinism, ManyWavesOfShardsOnAnyNumberOfThreads) {
  // 66 shards in waves of 8: the tree over shards does not know about waves or threads.
  const PlanOptions many{.batch = 131, .block = 16, .shard_tokens = 32};
  EXPECT_EQ(hash_of(many, 1), hash_of(many, 4));
}

TEST(Determinism, RecomputationBySeveralBlocks) {
  PlanOptions o = seven_shards;
  std::string want;
  for (const int k : {0, 1, 2, 4, 100}) {
    o.recompute = k;
    DecoderRig<float> rig(small_spec(6), o, 2);
    rig.step();
    if (want.empty()) want = rig.grad_hash();
    EXPECT_EQ(rig.grad_hash(), want) << "recompute " << k;
  }
}

TEST(Determinism, APlanInsideAnotherPoolsPiece) {
  const std::string alone = hash_of(seven_shards, 1);
  std::vector<std::string> inside(4);
  ThreadPool outer(3);
  outer.run(4, [&](std::int64_t i) { inside[static_cast<std::size_t>(i)] = hash_of(seven_shards, 1); });
  for (const std::string& h : inside) EXPECT_EQ(h, alone);
}

TEST(Determinism, AnotherSeedGivesOtherBits) {
  DecoderRig<float> a(small_spec(), seven_shards, 1, {}, 1), b(small_spec(), seven_shards, 1, {}, 2);
  a.step();
  b.step();
  EXPECT_NE(a.grad_hash(), b.grad_hash());
}

}  // namespace
}  // namespace plumb
