#include "plumb/base/median.h"

#include <gtest/gtest.h>

#include <cmath>

namespace plumb {
namespace {

// The binomial tails by hand: of 8 coins P(0 heads) = 1/256 = 0.4 % and P(<= 1) = 9/256 = 3.5 %, so k = 1; of
// 16 P(<= 3) = 697/65536 = 1.1 % and P(<= 4) = 2517/65536 = 3.8 %, so k = 4; of 40 the tables of the sign
// test give k = 14.
TEST(Median, AndTheOrderStatisticsAroundIt) {
  const auto up_to = [](int n) {
    std::vector<double> v;
    for (int i = n; i >= 1; --i) v.push_back(i);
    return Median(v);
  };
  const Median eight = up_to(8), sixteen = up_to(16), forty = up_to(40);
  EXPECT_EQ(eight.value, 4.5);
  EXPECT_EQ(eight.low, 1);
  EXPECT_EQ(eight.high, 8);
  EXPECT_EQ(sixteen.value, 8.5);
  EXPECT_EQ(sixteen.low, 4);
  EXPECT_EQ(sixteen.high, 13);
  EXPECT_EQ(forty.low, 14);
  EXPECT_EQ(forty.high, 27);
  EXPECT_EQ(up_to(7).value, 4);
  // The normal approximation, (n + 1) / 2 - 0.98 sqrt(n), is good to one at this size.
  EXPECT_NEAR(up_to(4000).low, 2000.5 - 0.98 * std::sqrt(4000.0), 1);
}

}  // namespace
}  // namespace plumb
