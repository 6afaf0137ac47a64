// Dropout's factors: the fast path against its definition, and what they are on average.
#include "plumb/kernel/dropout.h"

#include <cmath>
#include <vector>

#include "tests/kernel/guarded.h"

namespace plumb {
namespace {

using test::for_each_target;

TEST(DropoutKernel, FastIsTheDefinition) {
  for_each_target([] {
    for (const double p : {0.1, 0.5, 0.999})
      for (const std::size_t n : {1, 3, 4, 5, 31, 64, 257})
        // the last: across 2^32 blocks of random words
        for (const std::int64_t first : {std::int64_t{0}, std::int64_t{4}, (std::int64_t{1} << 34) - 16}) {
          const Dropout d{stream(3, "test"), p, 5, 11};
          std::vector<float> fast(n, -1);
          dropout_factors<float>(d, 2, first, fast);
          for (std::size_t i = 0; i < n; ++i) {
            const auto at = static_cast<std::uint64_t>(first) + i;
            const bool falls = d.draws.at(5, 13, at / 4)[at % 4] < p * 0x1p32;
            ASSERT_EQ(fast[i], falls ? 0.0f : static_cast<float>(1 / (1 - std::round(p * 0x1p32) * 0x1p-32)))
                << p << " " << n << " " << first << " " << i;
          }
        }
  });
}

// The share that falls is p, within five standard deviations of a binomial; so the mean factor is 1.
TEST(DropoutKernel, TheShareIsP) {
  for (const double p : {0.01, 0.1, 0.5, 0.9}) {
    std::vector<float> f(1 << 18);
    dropout_factors<float>({stream(1, "share"), p, 0, 0}, 0, 0, f);
    const auto n = static_cast<double>(f.size());
    const auto fallen = static_cast<double>(std::ranges::count(f, 0.0f));
    EXPECT_NEAR(fallen / n, p, 5 * std::sqrt(p * (1 - p) / n)) << p;
  }
}

// However near p is to 1: what is left, times its share of all words, is 1.
TEST(DropoutKernel, TheMeanIsOne) {
  for (const double p : {1e-12, 0.3, 0.999, 1 - 1e-11}) {
    const Dropout d{stream(1, "mean"), p};
    EXPECT_NEAR(d.kept() * (0x1p32 - d.threshold()) * 0x1p-32, 1, 1e-15) << p;
  }
}

TEST(DropoutKernel, StepsSamplesAndPlacesDrawAnew) {
  const auto of = [](const Dropout& d, std::int64_t sample) {
    std::vector<float> f(256);
    dropout_factors<float>(d, sample, 0, f);
    return f;
  };
  const Dropout d{stream(1, "a"), 0.5, 4, 8};
  EXPECT_EQ(of(d, 2), of({d.draws, 0.5, 4, 10}, 0));  // by its global number, not by the shard
  EXPECT_NE(of(d, 2), of(d, 3));
  EXPECT_NE(of(d, 2), of({d.draws, 0.5, 5, 8}, 2));
  EXPECT_NE(of(d, 2), of({stream(1, "b"), 0.5, 4, 8}, 2));
  EXPECT_NE(of(d, 2), of({stream(2, "a"), 0.5, 4, 8}, 2));
}

}  // namespace
}  // namespace plumb
