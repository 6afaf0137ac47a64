// T5's buckets against the reference lists.
#include "plumb/kernel/t5_bucket.h"

#include <gtest/gtest.h>

#include "tests/support/reference.h"

namespace plumb {
namespace {

TEST(T5Bucket, CausalMatchesTheReference) {
  const auto& want = test::reference("t5_buckets_causal").out("bucket").data;
  for (std::size_t n = 0; n < want.size(); ++n)
    EXPECT_EQ(t5_bucket(static_cast<std::int64_t>(n)), want[n]) << n;
}

TEST(T5Bucket, BidirectionalMatchesTheReference) {
  const auto& want = test::reference("t5_buckets_bidirectional").out("bucket").data;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const std::int64_t relative = static_cast<std::int64_t>(i) - 200;
    EXPECT_EQ(t5_bucket_bidirectional(relative), want[i]) << relative;
  }
}

TEST(T5Bucket, AFutureKeyIsInTheFirst) { EXPECT_EQ(t5_bucket(-5), 0); }

TEST(T5Bucket, StartsAreThePublishedOnes) {
  int at = 16;
  for (std::int64_t start : {16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113}) {
    EXPECT_EQ(t5_bucket(start), at++);
    EXPECT_EQ(t5_bucket(start - 1), at - 2);
  }
  EXPECT_EQ(t5_bucket(1'000'000), 31);
}

}  // namespace
}  // namespace plumb
