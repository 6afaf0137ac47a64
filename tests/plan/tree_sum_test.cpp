#include "plumb/plan/tree_sum.h"

#include <gtest/gtest.h>

#include <bit>
#include <numeric>

#include "plumb/plan/schedule.h"

namespace plumb {
namespace {

// The definition: left part the largest power of two below n.
float tree(const std::vector<float>& v, std::size_t from, std::size_t n) {
  if (n == 1) return v[from];
  const std::size_t left = std::bit_floor(n - 1);
  return tree(v, from, left) + tree(v, from + left, n - left);
}

TEST(TreeSum, IsTheDefinedTreeForAnyNumberOfShards) {
  ThreadPool pool(3);
  for (std::int64_t n = 1; n <= 70; ++n) {
    std::vector<float> leaves;
    for (std::int64_t i = 0; i < n; ++i) leaves.push_back(1.0f / static_cast<float>(i * i + 3));
    TreeSum<float> sum(n, 3);
    for (std::int64_t from = 0; from < n; from += TreeSum<float>::wave) {
      const std::int64_t to = std::min(n, from + TreeSum<float>::wave);
      for (std::int64_t i = from; i < to; ++i) sum.slot(i)[1] = leaves[static_cast<std::size_t>(i)];
      sum.end_wave(to, pool);
    }
    EXPECT_EQ(sum.total()[1], tree(leaves, 0, leaves.size())) << n << " shards";
    EXPECT_EQ(sum.total()[0], 0.0f);
  }
}

TEST(Place, NoTwoLiveBuffersOverlapAndMemoryIsReused) {
  std::vector<Lifetime> b;
  std::int64_t all = 0;
  for (int i = 0; i < 60; ++i) {
    Lifetime x{.size = 16 * (1 + i * 7 % 5)};
    x.use(i);
    x.use(i + 1 + i * 3 % 7);
    all += x.size;
    b.push_back(x);
  }
  const std::int64_t total = place(b);
  EXPECT_LT(total, all / 3);
  for (std::size_t i = 0; i < b.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      const bool both_live = b[i].first <= b[j].last && b[j].first <= b[i].last;
      const bool overlap = b[i].offset < b[j].offset + b[j].size && b[j].offset < b[i].offset + b[i].size;
      EXPECT_FALSE(both_live && overlap) << i << " and " << j;
    }
}

}  // namespace
}  // namespace plumb
