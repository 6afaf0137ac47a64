#include "plumb/kernel/rows.h"
#include "tests/kernel/guarded.h"

namespace plumb {
namespace {

using test::expect_gradient;
using test::for_each_target;
using test::Guarded;
using test::kEps;
using test::near;
using test::same_bits;
using test::swept_lengths;

std::vector<std::int32_t> targets(std::mt19937_64& rng, std::int64_t rows, std::int64_t n) {
  std::vector<std::int32_t> t;
  for (std::int64_t i = 0; i < rows; ++i) t.push_back(std::int32_t(rng() % std::uint64_t(n)));
  return t;
}

TEST(LossKernels, PlainBackwardIsTheDerivative) {
  for (const double scale : {0.1, 1.0, 10.0}) {
    std::mt19937_64 rng(1);
    Guarded<double> z(5, 11, 1), lse(5, 1), dz(5, 11);
    z.randomise(rng, scale);
    std::vector<std::int32_t> t = targets(rng, 5, 11);
    t[2] = -1;
    plain::cross_entropy_forward<double>(z.view(), t, -1, lse.view());
    plain::cross_entropy_backward<double>(z.view(), t, -1, lse.view(), 0.25, {dz.view(), true});
    Guarded<double> scratch(5, 1);
    const auto loss = [&] {
      return 0.25 * plain::cross_entropy_forward<double>(z.view(), t, -1, scratch.view());
    };
    expect_gradient(z, dz, 1e-3, loss, "logits");
  }
}

TEST(LossKernels, FastIsPlain) {
  for_each_target([] {
    for (const std::int64_t n : swept_lengths())
      for (const double scale : {1.0, 3000.0}) {  // logits to 1e4
        std::mt19937_64 rng{std::uint64_t(n)};
        const std::int64_t rows = 5, gap = n % 3;
        Guarded<float> z(rows, n, gap, n % 4), lse(rows, 1, gap), dz(rows, n, gap, 1);
        Guarded<double> pz(rows, n), plse(rows, 1), pdz(rows, n);
        z.randomise(rng, scale);
        dz.randomise(rng, 1);
        pz.copy(z), pdz.copy(dz);
        const bool overwrite = n % 2 == 0;
        std::vector<std::int32_t> t = targets(rng, rows, n);
        t[1] = -100;
        const double loss = cross_entropy_forward<float>(z.view(), t, -100, lse.view());
        const double want = plain::cross_entropy_forward<double>(pz.view(), t, -100, plse.view());
        cross_entropy_backward<float>(z.view(), t, -100, lse.view(), 0.5, {dz.view(), overwrite});
        plain::cross_entropy_backward<double>(pz.view(), t, -100, plse.view(), 0.5, {pdz.view(), overwrite});
        const double top = 4 * scale, sums = 2 * kEps * std::sqrt(double(n) + 16);
        EXPECT_NEAR(loss, want, double(rows) * (sums + kEps * top))
            << n;  // the float sum; z - max of the float z
        EXPECT_TRUE(near(lse, plse, sums + kEps * (std::log(double(n)) + top))) << n;
        // e^(z - lse) carries the rounding of lse, up to where backward sums again
        const double rounded = kEps * std::min(64.0, 10 + top);
        EXPECT_TRUE(near(dz, pdz, 0.5 * (2 * sums + rounded) + (overwrite ? 0 : 4 * kEps))) << n;
        EXPECT_EQ(dz.at(1, n - 1), float(pdz.at(1, n - 1))) << "the ignored row";
      }
  });
}

constexpr LossTerms some_terms[] = {
    {.label_smoothing = 0.1}, {.z_loss = 0.01}, {.label_smoothing = 0.3, .z_loss = 0.2}};

TEST(LossTerms, PlainBackwardIsTheDerivative) {
  for (const LossTerms& terms : some_terms)
    for (const double scale : {0.1, 1.0, 10.0}) {
      std::mt19937_64 rng(1);
      Guarded<double> z(5, 11, 1), lse(5, 1), dz(5, 11);
      z.randomise(rng, scale);
      std::vector<std::int32_t> t = targets(rng, 5, 11);
      t[2] = -1;
      plain::cross_entropy_forward<double>(z.view(), t, -1, lse.view());
      plain::cross_entropy_backward<double>(z.view(), t, -1, lse.view(), 0.25, {dz.view(), true}, terms);
      Guarded<double> scratch(5, 1);
      const auto loss = [&] {
        const double ce = plain::cross_entropy_forward<double>(z.view(), t, -1, scratch.view());
        return 0.25 * (ce + plain::loss_terms<double>(z.view(), t, -1, scratch.view(), terms));
      };
      expect_gradient(z, dz, 1e-3, loss, "logits");
    }
}

TEST(LossTerms, FastIsPlain) {
  for_each_target([] {
    for (const LossTerms& terms : some_terms)
      for (const std::int64_t n : swept_lengths())
        for (const double scale : {1.0, 100.0}) {
          std::mt19937_64 rng{std::uint64_t(n)};
          const std::int64_t rows = 4, gap = n % 3;
          Guarded<float> z(rows, n, gap, n % 4), lse(rows, 1, gap), dz(rows, n, gap, 1);
          Guarded<double> pz(rows, n), plse(rows, 1), pdz(rows, n);
          z.randomise(rng, scale);
          dz.randomise(rng, 1);
          pz.copy(z), pdz.copy(dz);
          std::vector<std::int32_t> t = targets(rng, rows, n);
          t[1] = -100;
          cross_entropy_forward<float>(z.view(), t, -100, lse.view());
          plain::cross_entropy_forward<double>(pz.view(), t, -100, plse.view());
          const bool overwrite = n % 2 == 0;
          const double got = loss_terms<float>(z.view(), t, -100, lse.view(), terms);
          const double want = plain::loss_terms<double>(pz.view(), t, -100, plse.view(), terms);
          cross_entropy_backward<float>(z.view(), t, -100, lse.view(), 0.5, {dz.view(), overwrite}, terms);
          plain::cross_entropy_backward<double>(pz.view(), t, -100, plse.view(), 0.5, {pdz.view(), overwrite},
                                                terms);
          // As without terms (FastIsPlain above); lse, rounded and of a float sum, enters the z-loss squared
          // and the gradient as a factor 1 + 2 z lse.
          const double top = 10 + 4 * scale, sums = 2 * kEps * std::sqrt(double(n) + 16),
                       lse_off = sums + kEps * top;
          EXPECT_NEAR(got, want, double(rows) * (terms.z_loss * 2 * top * lse_off + 1e-12 * top)) << n;
          const double tilt = 1 + 2 * terms.z_loss * top, rounded = kEps * std::min(64.0, top);
          EXPECT_TRUE(
              near(dz, pdz, 0.5 * tilt * (2 * sums + rounded + 4 * kEps) + (overwrite ? 0 : 4 * kEps)))
              << n;
          EXPECT_EQ(dz.at(1, n - 1), float(pdz.at(1, n - 1))) << "the ignored row";
        }
  });
}

TEST(LossKernels, AnySplitOfRowsGivesTheSameBits) {
  for_each_target([] {
    std::mt19937_64 rng(3);
    Guarded<float> z(7, 131), moved(7, 131, 2, 1), lse(7, 1), lse2(7, 1), dz(7, 131), dz2(7, 131, 1);
    z.randomise(rng, 2);
    moved.copy(z);
    const std::vector<std::int32_t> t = targets(rng, 7, 131);
    const double loss = cross_entropy_forward<float>(z.view(), t, -1, lse.view());
    cross_entropy_backward<float>(z.view(), t, -1, lse.view(), 0.1, {dz.view(), true});
    double parts = 0;
    for (std::int64_t i = 0; i < 7; ++i) {
      const std::span<const std::int32_t> ti = std::span(t).subspan(std::size_t(i), 1);
      parts += cross_entropy_forward<float>(moved.view().slice(i, 1), ti, -1, lse2.view().slice(i, 1));
      cross_entropy_backward<float>(moved.view().slice(i, 1), ti, -1, lse2.view().slice(i, 1), 0.1,
                                    {dz2.view().slice(i, 1), true});
    }
    EXPECT_EQ(loss, parts);
    EXPECT_TRUE(same_bits(lse.view(), lse2.view()));
    EXPECT_TRUE(same_bits(dz.view(), dz2.view()));
  });
}

TEST(LossKernels, NaNReachesLossAndGradientOfItsRowUnlessIgnored) {
  for_each_target([] {
    for (const std::int64_t n : {1, 13, 64})
      for (const float bad : {NAN, INFINITY}) {
        std::mt19937_64 rng(4);
        Guarded<float> z(3, n), lse(3, 1), dz(3, n);
        z.randomise(rng, 1);
        z.at(1, n / 2) = bad;
        std::vector<std::int32_t> t(3, 0);
        EXPECT_TRUE(std::isnan(cross_entropy_forward<float>(z.view(), t, -1, lse.view())));
        cross_entropy_backward<float>(z.view(), t, -1, lse.view(), 1, {dz.view(), true});
        EXPECT_TRUE(std::isnan(lse.at(1, 0)));
        EXPECT_TRUE(std::isnan(dz.at(1, 0)));
        EXPECT_TRUE(std::isfinite(lse.at(0, 0) + dz.at(0, n - 1) + dz.at(2, 0)));
        t[1] = -1;
        EXPECT_TRUE(std::isfinite(cross_entropy_forward<float>(z.view(), t, -1, lse.view())));
        cross_entropy_backward<float>(z.view(), t, -1, lse.view(), 1, {dz.view(), true});
        EXPECT_EQ(dz.at(1, n / 2), 0);
      }
  });
}

}  // namespace
}  // namespace plumb
