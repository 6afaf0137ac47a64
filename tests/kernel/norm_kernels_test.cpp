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

/// All that LayerNorm (or RMSNorm) reads and writes; backward adds to sinks that hold `before` unless it
/// overwrites.
template <class R>
struct Norm {
  Guarded<R> x, gamma, beta, dy, y, mean, rstd, dx, dgamma, dbeta;
  bool affine = true, overwrite = true;

  Norm(std::int64_t rows, std::int64_t n, std::int64_t gap, std::int64_t shift)
      : x(rows, n, gap, shift),
        gamma(1, n),
        beta(1, n, 0, shift),
        dy(rows, n, gap + 1),
        y(rows, n, gap),
        mean(rows, 1, gap),
        rstd(rows, 1),
        dx(rows, n, gap, shift),
        dgamma(1, n, 0, shift),
        dbeta(1, n) {}

  void randomise(unsigned seed, double scale, double offset) {
    std::mt19937_64 rng(seed);
    x.randomise(rng, scale, offset);
    gamma.randomise(rng, 0.5, 1);
    beta.randomise(rng, 0.5);
    dy.randomise(rng, 1);
    dx.randomise(rng, 1);
    dgamma.randomise(rng, 1);
    dbeta.randomise(rng, 1);
  }
  template <class Q>
  void copy(const Norm<Q>& o) {
    x.copy(o.x), gamma.copy(o.gamma), beta.copy(o.beta), dy.copy(o.dy), dx.copy(o.dx), dgamma.copy(o.dgamma);
    dbeta.copy(o.dbeta);
    affine = o.affine, overwrite = o.overwrite;
  }
  View<const R> gain() const { return affine ? gamma.read() : View<const R>{}; }
  View<const R> bias() const { return affine ? beta.read() : View<const R>{}; }
  Sink<R> to(const Guarded<R>& g) const { return {g.view(), overwrite}; }
  Sink<R> to_parameter(const Guarded<R>& g) const { return affine ? to(g) : Sink<R>{}; }

  void layer_norm(bool plain) {
    const double eps = 1e-5;
    if (plain) {
      plain::layer_norm_forward<R>(x.view(), gain(), bias(), eps, y.view(), mean.view(), rstd.view());
      plain::layer_norm_backward<R>(dy.view(), x.view(), gain(), mean.view(), rstd.view(), to(dx),
                                    to_parameter(dgamma), to_parameter(dbeta));
    } else {
      layer_norm_forward<R>(x.view(), gain(), bias(), eps, y.view(), mean.view(), rstd.view());
      layer_norm_backward<R>(dy.view(), x.view(), gain(), mean.view(), rstd.view(), to(dx),
                             to_parameter(dgamma), to_parameter(dbeta));
    }
  }
  void rms_norm(bool plain) {
    const double eps = 1e-6;
    if (plain) {
      plain::rms_norm_forward<R>(x.view(), gain(), eps, y.view(), rstd.view());
      plain::rms_norm_backward<R>(dy.view(), x.view(), gain(), rstd.view(), to(dx), to_parameter(dgamma));
    } else {
      rms_norm_forward<R>(x.view(), gain(), eps, y.view(), rstd.view());
      rms_norm_backward<R>(dy.view(), x.view(), gain(), rstd.view(), to(dx), to_parameter(dgamma));
    }
  }
  void run(bool layer, bool plain) { layer ? layer_norm(plain) : rms_norm(plain); }
};

TEST(NormKernels, PlainBackwardIsTheDerivative) {
  for (const bool layer : {true, false})
    for (const bool affine : {true, false})
      for (const double scale : {0.1, 1.0, 10.0}) {
        Norm<double> a(3, 7, 2, 0), work(3, 7, 2, 0);
        a.randomise(1, scale, layer ? scale : 0);
        a.affine = affine;
        a.run(layer, true);
        work.copy(a);
        const auto loss = [&] {
          if (layer)
            plain::layer_norm_forward<double>(work.x.view(), work.gain(), work.bias(), 1e-5, work.y.view(),
                                              work.mean.view(), work.rstd.view());
          else
            plain::rms_norm_forward<double>(work.x.view(), work.gain(), 1e-6, work.y.view(),
                                            work.rstd.view());
          return plain::dot<double>(work.y.view(), work.dy.view());
        };
        expect_gradient(work.x, a.dx, 1e-3 * scale, loss, "x");
        if (!affine) continue;
        expect_gradient(work.gamma, a.dgamma, 1e-3, loss, "gamma");
        if (layer) expect_gradient(work.beta, a.dbeta, 1e-3, loss, "beta");
      }
}

/// Errors of float sums of n terms grow like sqrt(n) roundings; LayerNorm magnifies the rounding of x - mean
/// by |mean| / sigma.
double unit(std::int64_t n, double scale, double offset) {
  return kEps * (4 + std::sqrt(double(n))) * (1 + std::abs(offset) / scale);
}

TEST(NormKernels, FastIsPlain) {
  for_each_target([] {
    for (const std::int64_t n : swept_lengths())
      for (const bool layer : {true, false}) {
        const std::int64_t rows = n % 3 == 0 ? 9 : 4 + n % 2, gap = n % 4;
        const double scale = n % 2 ? 1 : 10, offset = layer ? 2.0 : 0.0;
        Norm<float> fast(rows, n, gap, n % 5);
        Norm<double> plain(rows, n, gap, 0);
        fast.randomise(unsigned(n), scale, offset);
        fast.affine = n % 7 != 0;
        fast.overwrite = n % 2 == 0;
        plain.copy(fast);
        fast.run(layer, false);
        plain.run(layer, true);
        const double u = unit(n, scale, offset);
        // a row of nearly equal elements has 1 / sigma as large as it likes
        const auto x_hat = [&](std::int64_t i) { return u * (1 + plain.rstd.at(i, 0) * scale); };
        const auto x_grad = [&](std::int64_t i, std::int64_t) {
          return 4 * x_hat(i) * (1 + plain.rstd.at(i, 0)) * (1 + plain.rstd.at(i, 0) * scale);
        };
        double worst = 0;
        for (std::int64_t i = 0; i < rows; ++i) worst = std::max(worst, x_hat(i));
        EXPECT_TRUE(near(fast.y, plain.y, [&](std::int64_t i, std::int64_t) { return 2 * x_hat(i); })) << n;
        EXPECT_TRUE(near(fast.dx, plain.dx, x_grad)) << n << " " << layer;
        EXPECT_TRUE(near(fast.dgamma, plain.dgamma, worst * double(rows))) << n;
        EXPECT_TRUE(near(fast.dbeta, plain.dbeta, kEps * 16 * double(rows))) << n;
        if (layer) {
          EXPECT_TRUE(near(fast.mean, plain.mean, u * scale)) << n;
        }
      }
  });
}

TEST(NormKernels, AnySplitOfRowsGivesTheSameBits) {
  for_each_target([] {
    for (const std::int64_t n : {5, 64, 130}) {
      Norm<float> whole(11, n, 0, 0), parts(11, n, 3, 1);
      whole.randomise(3, 1, 1);
      whole.overwrite = false;
      parts.copy(whole);
      whole.layer_norm(false);
      for (std::int64_t i = 0, rows = 1; i < 11; i += rows, ++rows) {
        rows = std::min(rows, 11 - i);
        const auto cut = [&](const Guarded<float>& g) { return g.view().slice(i, rows); };
        layer_norm_forward<float>(cut(parts.x), parts.gain(), parts.bias(), 1e-5, cut(parts.y),
                                  cut(parts.mean), cut(parts.rstd));
        layer_norm_backward<float>(cut(parts.dy), cut(parts.x), parts.gain(), cut(parts.mean),
                                   cut(parts.rstd), {cut(parts.dx), false}, parts.to(parts.dgamma),
                                   parts.to(parts.dbeta));
      }
      EXPECT_TRUE(same_bits(whole.y.view(), parts.y.view()));
      EXPECT_TRUE(same_bits(whole.dx.view(), parts.dx.view()));
      EXPECT_TRUE(same_bits(whole.dgamma.view(), parts.dgamma.view()));
      EXPECT_TRUE(same_bits(whole.dbeta.view(), parts.dbeta.view()));
    }
  });
}

TEST(NormKernels, ANonFiniteInputReachesItsRowAndNoOther) {
  for_each_target([] {
    for (const bool layer : {true, false})
      for (const float bad : {NAN, INFINITY, -INFINITY})
        for (const std::int64_t n : {1, 9, 64}) {
          Norm<float> a(6, n, 1, 0);
          a.randomise(4, 1, 0);
          a.x.at(2, n - 1) = bad;
          a.run(layer, false);
          EXPECT_TRUE(std::isnan(a.y.at(2, n - 1)));
          EXPECT_TRUE(std::isnan(a.dx.at(2, n - 1)));
          EXPECT_TRUE(std::isnan(a.dgamma.at(0, n - 1)));
          for (const std::int64_t i : {0, 1, 3, 4, 5})
            EXPECT_TRUE(std::isfinite(a.y.at(i, 0) + a.dx.at(i, n - 1)));
        }
  });
}

TEST(NormKernels, EmptySinksAreSkipped) {
  Norm<float> a(5, 12, 0, 0);
  a.randomise(5, 1, 0);
  a.layer_norm(false);
  const Sink<float> none;
  layer_norm_backward<float>(a.dy.view(), a.x.view(), {}, a.mean.view(), a.rstd.view(), none, none, none);
  rms_norm_backward<float>(a.dy.view(), a.x.view(), {}, a.rstd.view(), none, none);
  Guarded<float> dbeta(1, 12);
  layer_norm_backward<float>(a.dy.view(), a.x.view(), a.gamma.view(), a.mean.view(), a.rstd.view(), none,
                             none, {dbeta.view(), true});
  EXPECT_TRUE(same_bits(dbeta.view(), a.dbeta.view()));
}

}  // namespace
}  // namespace plumb
