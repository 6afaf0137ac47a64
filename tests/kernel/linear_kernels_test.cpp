#include "plumb/kernel/adamw.h"
#include "plumb/kernel/rows.h"
#include "tests/kernel/guarded.h"

namespace plumb {
namespace {

using test::for_each_target;
using test::Guarded;
using test::kEps;
using test::near;
using test::same_bits;
using test::swept_lengths;

TEST(LinearKernels, FastIsPlain) {
  for_each_target([] {
    for (const std::int64_t n : swept_lengths()) {
      std::mt19937_64 rng{std::uint64_t(n)};
      const std::int64_t rows = 3 + n % 9, gap = n % 3;
      Guarded<float> x(rows, n, gap, n % 2), z(rows, n, 1), y(rows, n, gap), bias(1, n, 0, n % 3);
      Guarded<double> px(rows, n), pz(rows, n), py(rows, n), pbias(1, n);
      x.randomise(rng, 1), z.randomise(rng, 1), y.randomise(rng, 1), bias.randomise(rng, 1);
      px.copy(x), pz.copy(z), py.copy(y), pbias.copy(bias);
      const double tolerance = 30 * kEps;  // three roundings of numbers below 10
      pass<float>(0.7, x.view(), {y.view(), false});
      plain::pass<double>(0.7, px.view(), {py.view(), false});
      EXPECT_TRUE(near(y, py, tolerance)) << n;
      axpby<float>(0.3, x.view(), -1.5, z.view(), y.view());
      plain::axpby<double>(0.3, px.view(), -1.5, pz.view(), py.view());
      EXPECT_TRUE(near(y, py, tolerance)) << n;
      axpby<float>(0.3, x.view(), 1, {}, y.view());
      plain::axpby<double>(0.3, px.view(), 1, {}, py.view());
      EXPECT_TRUE(near(y, py, tolerance)) << n;
      add_bias<float>(x.view(), bias.view(), y.view());
      plain::add_bias<double>(px.view(), pbias.view(), py.view());
      EXPECT_TRUE(near(y, py, tolerance)) << n;
      const double size = std::sqrt(double(rows * n)) * 0x1p-50;
      EXPECT_NEAR(sum<float>(x.view()), plain::sum<double>(px.view()), 4 * size) << n;
      EXPECT_NEAR(dot<float>(x.view(), z.view()), plain::dot<double>(px.view(), pz.view()), 16 * size) << n;
      EXPECT_NEAR(sum_squares<float>(x.view()), plain::sum_squares<double>(px.view()),
                  16 * size * std::sqrt(double(rows * n)));
    }
  });
}

TEST(LinearKernels, AliasedOutputsAreFine) {
  for_each_target([] {
    std::mt19937_64 rng(1);
    Guarded<float> x(3, 29), z(3, 29), y(3, 29), a(3, 29), b(3, 29);
    x.randomise(rng, 1), z.randomise(rng, 1);
    a.copy(x), b.copy(z);
    axpby<float>(2, x.view(), 3, z.view(), y.view());
    axpby<float>(2, a.view(), 3, z.view(), a.view());
    axpby<float>(2, x.view(), 3, b.view(), b.view());
    EXPECT_TRUE(same_bits(a.view(), y.view()));
    EXPECT_TRUE(same_bits(b.view(), y.view()));
  });
}

TEST(LinearKernels, ColumnSumsAddRowsInOrder) {
  for_each_target([] {
    for (const std::int64_t n : swept_lengths())
      for (const bool overwrite : {true, false}) {
        std::mt19937_64 rng{std::uint64_t(n)};
        Guarded<float> x(21, n, n % 2), out(1, n, 0, 1), plain(1, n), parts(1, n);
        x.randomise(rng, 1), out.randomise(rng, 1);
        plain.copy(out), parts.copy(out);
        column_sums<float>(x.view(), {out.view(), overwrite});
        plain::column_sums<float>(x.view(), {plain.view(), overwrite});
        EXPECT_TRUE(same_bits(out.view(), plain.view())) << n;
        column_sums<float>(x.view().slice(0, 11), {parts.view(), overwrite});
        column_sums<float>(x.view().slice(11, 10), {parts.view(), false});
        EXPECT_TRUE(same_bits(out.view(), parts.view())) << n;
      }
  });
}

TEST(LinearKernels, EmbeddingGathersAndScattersInOrder) {
  for_each_target([] {
    std::mt19937_64 rng(1);
    const std::vector<std::int32_t> ids = {3, 0, 3, 3, 5, 0};
    for (const std::int64_t n : {1, 8, 33}) {
      Guarded<float> table(6, n), y(6, n, 2), dy(6, n, 1), d(6, n), plain(6, n);
      table.randomise(rng, 1), dy.randomise(rng, 1);
      embedding_forward<float>(ids, table.view(), y.view());
      for (std::int64_t i = 0; i < 6; ++i) EXPECT_EQ(y.at(i, n - 1), table.at(ids[std::size_t(i)], n - 1));
      for (const bool overwrite : {true, false}) {
        d.randomise(rng, 1);
        plain.copy(d);
        embedding_backward<float>(ids, dy.view(), {d.view(), overwrite});
        plain::embedding_backward<float>(ids, dy.view(), {plain.view(), overwrite});
        EXPECT_TRUE(same_bits(d.view(), plain.view()));
        EXPECT_EQ(d.at(5, 0), (overwrite ? 0 : d.at(5, 0) - dy.at(4, 0)) + dy.at(4, 0));
      }
    }
  });
}

TEST(LinearKernels, SumsInDoubleNeitherOverflowNorHideNaN) {
  for_each_target([] {
    Guarded<float> x(2, 21, 3);
    x.fill([](std::int64_t, std::int64_t) { return 0x1p100; });
    EXPECT_EQ(sum_squares<float>(x.view()), 42 * 0x1p200);
    for (std::int64_t j = 0; j < 21; ++j)
      for (const float bad : {NAN, INFINITY, -INFINITY}) {
        EXPECT_TRUE(all_finite<float>(x.view()));
        x.at(1, j) = bad;
        EXPECT_FALSE(all_finite<float>(x.view()));
        EXPECT_FALSE(std::isfinite(sum<float>(x.view())));
        EXPECT_FALSE(std::isfinite(sum_squares<float>(x.view())));
        x.at(1, j) = 0x1p100f;
      }
  });
}

TEST(AdamWKernel, FastIsPlain) {
  for_each_target([] {
    AdamWStep step;
    step.lr = 1e-3, step.shrink = 1e-4, step.grad_scale = 0.5, step.bias1 = 0.19, step.bias2 = 0.0975;
    for (const std::int64_t n : swept_lengths()) {
      std::mt19937_64 rng{std::uint64_t(n)};
      Guarded<float> g(1, n, 0, n % 2), p(1, n), m(1, n), v(1, n, 0, 1);
      Guarded<double> pg(1, n), pp(1, n), pm(1, n), pv(1, n);
      g.randomise(rng, 1), p.randomise(rng, 1), m.randomise(rng, 0.1);
      v.fill([&](std::int64_t, std::int64_t j) { return double(g.at(0, j) * g.at(0, j)); });
      pg.copy(g), pp.copy(p), pm.copy(m), pv.copy(v);
      for (int t = 0; t < 3; ++t) {
        adamw<float>(n, step, g.view().data, p.view().data, m.view().data, v.view().data);
        plain::adamw<double>(n, step, pg.view().data, pp.view().data, pm.view().data, pv.view().data);
      }
      // p moves by rate m / root, each rounded a few times, and is itself rounded at each step
      EXPECT_TRUE(near(
          p, pp, [&](std::int64_t, std::int64_t j) { return 6 * kEps * (std::abs(pp.at(0, j)) + 0.1); }));
      EXPECT_TRUE(near(m, pm, 12 * kEps));
      EXPECT_TRUE(near(v, pv, [&](std::int64_t, std::int64_t j) { return 12 * kEps * pv.at(0, j); }));
    }
  });
}

TEST(AdamWKernel, AnyCutOfABufferGivesTheSameBits) {
  for_each_target([] {
    AdamWStep step;
    step.lr = 1e-2, step.shrink = 1e-3;
    std::mt19937_64 rng(1);
    Guarded<float> g(1, 101), p(1, 101), m(1, 101), v(1, 101), p2(1, 101, 0, 1), m2(1, 101), v2(1, 101, 0, 3);
    g.randomise(rng, 1), p.randomise(rng, 1), p2.copy(p);
    adamw<float>(101, step, g.view().data, p.view().data, m.view().data, v.view().data);
    for (std::int64_t i = 0, n = 1; i < 101; i += n, n += 3) {
      n = std::min<std::int64_t>(n, 101 - i);
      adamw<float>(n, step, g.view().data + i, p2.view().data + i, m2.view().data + i, v2.view().data + i);
    }
    EXPECT_TRUE(same_bits(p.view(), p2.view()));
    EXPECT_TRUE(same_bits(m.view(), m2.view()));
    EXPECT_TRUE(same_bits(v.view(), v2.view()));
  });
}

TEST(AdamWKernel, ANaNGradientReachesTheParameter) {
  for_each_target([] {
    Guarded<float> g(1, 9), p(1, 9), m(1, 9), v(1, 9);
    g.at(0, 8) = NAN;
    adamw<float>(9, AdamWStep{}, g.view().data, p.view().data, m.view().data, v.view().data);
    EXPECT_TRUE(std::isnan(m.at(0, 8)) && std::isnan(v.at(0, 8)) && std::isnan(p.at(0, 8)));
    EXPECT_EQ(p.at(0, 7), 0);
  });
}

}  // namespace
}  // namespace plumb
