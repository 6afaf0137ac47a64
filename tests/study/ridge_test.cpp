// Ridge regression against rows standardised one by one and Gaussian elimination.
#include "plumb/study/ridge.h"

#include <gtest/gtest.h>

#include <cmath>

#include "plumb/base/rng.h"
#include "tests/support/error_text.h"

namespace plumb::test {
namespace {

using Matrix = std::vector<std::vector<double>>;

struct Made {
  Matrix x, y;
};

// Features of other means and units, two of them alike, one that does not vary.
Made made(std::size_t n) {
  const Stream s = stream(5, "ridge");
  Made m;
  for (std::uint64_t r = 0; r < n; ++r) {
    const double a = s.normal(0, r, 0), b = s.normal(0, r, 1), c = s.normal(0, r, 2),
                 noise = s.normal(0, r, 3);
    m.x.push_back({a, 100 * b + 1000, a + 0.01 * c, 7, 1e-3 * c});
    m.y.push_back({2 * a - b + noise, c > 0.5 ? 1.0 : 0.0});
  }
  return m;
}

LeastSquares added(const Made& m, std::size_t from, std::size_t to) {
  LeastSquares l(5, 2);
  for (std::size_t r = from; r < to; ++r) l.add(m.x[r], m.y[r]);
  return l;
}

std::vector<double> eliminated(Matrix a, std::vector<double> b) {
  const std::size_t n = b.size();
  for (std::size_t k = 0; k < n; ++k)
    for (std::size_t i = k + 1; i < n; ++i) {
      const double f = a[i][k] / a[k][k];
      for (std::size_t j = k; j < n; ++j) a[i][j] -= f * a[k][j];
      b[i] -= f * b[k];
    }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t j = i + 1; j < n; ++j) b[i] -= a[i][j] * b[j];
    b[i] /= a[i][i];
  }
  return b;
}

// Weights of the features as they are.
std::vector<double> plain_ridge(const Made& m, std::size_t target, double ridge) {
  const auto n = static_cast<double>(m.x.size());
  std::vector<double> mean(5), std(5), c(5);
  double middle = 0;
  for (std::size_t r = 0; r < m.x.size(); ++r) {
    middle += m.y[r][target] / n;
    for (std::size_t i = 0; i < 5; ++i) mean[i] += m.x[r][i] / n;
  }
  for (const auto& x : m.x)
    for (std::size_t i = 0; i < 5; ++i) std[i] += (x[i] - mean[i]) * (x[i] - mean[i]) / n;
  for (double& s : std) s = s > 1e-20 ? std::sqrt(s) : HUGE_VAL;  // of what does not vary, rounding is left
  Matrix a(5, std::vector<double>(5));
  for (std::size_t r = 0; r < m.x.size(); ++r)
    for (std::size_t i = 0; i < 5; ++i) {
      const double z = (m.x[r][i] - mean[i]) / std[i];
      c[i] += z * (m.y[r][target] - middle) / n;
      for (std::size_t j = 0; j < 5; ++j) a[i][j] += z * (m.x[r][j] - mean[j]) / std[j] / n;
    }
  for (std::size_t i = 0; i < 5; ++i) a[i][i] += ridge;
  std::vector<double> w = eliminated(a, c);
  for (std::size_t i = 0; i < 5; ++i) w[i] /= std[i];
  return w;
}

TEST(Ridge, IsThatOfAPlainSolve) {
  const Made m = made(203);
  const LeastSquares l = added(m, 0, 203);
  for (const double ridge : {1e-4, 0.1, 10.0}) {
    const LinearFit f = l.fit(ridge);
    for (std::size_t k = 0; k < 2; ++k) {
      const auto want = plain_ridge(m, k, ridge);
      double misses = 0;
      for (std::size_t i = 0; i < 5; ++i)
        EXPECT_NEAR(f.weights[5 * k + i], want[i], 1e-6 * std::max(1.0, std::abs(want[i]))) << i;
      double bias = 0;  // residuals of a free intercept have mean 0
      for (std::size_t r = 0; r < m.x.size(); ++r) {
        const double miss = m.y[r][k] - f.predict(m.x[r], k);
        misses += miss * miss / 203, bias += miss / 203;
      }
      EXPECT_NEAR(bias, 0, 1e-9);
      EXPECT_NEAR(l.error(f, k), misses, 1e-9);
    }
    EXPECT_EQ(f.weights[3], 0);  // it does not vary
  }
}

TEST(Ridge, FindsAPlantedMap) {
  LeastSquares l(3, 1);
  const Stream s = stream(6, "ridge");
  for (std::uint64_t r = 0; r < 100; ++r) {
    const std::vector<double> x{s.normal(0, r, 0), s.normal(0, r, 1), s.normal(0, r, 2)};
    l.add(x, std::vector<double>{3 * x[0] - x[1] + 2});
  }
  const LinearFit f = l.fit(1e-10);
  EXPECT_NEAR(f.weights[0], 3, 1e-8);
  EXPECT_NEAR(f.weights[1], -1, 1e-8);
  EXPECT_NEAR(f.weights[2], 0, 1e-8);
  EXPECT_NEAR(f.intercept[0], 2, 1e-8);
}

TEST(Ridge, PartsAddUp) {
  const Made m = made(150);
  LeastSquares parts = added(m, 0, 37);
  parts.add(added(m, 37, 150));
  EXPECT_EQ(parts.count(), 150);
  const LinearFit a = parts.fit(0.01), b = added(m, 0, 150).fit(0.01);
  for (std::size_t i = 0; i < a.weights.size(); ++i)
    EXPECT_NEAR(a.weights[i], b.weights[i], 1e-9 * std::max(1.0, std::abs(b.weights[i])));
}

TEST(Ridge, RefusesWhatIsNotFinite) {
  LeastSquares l(1, 1);
  l.add(std::vector<double>{NAN}, std::vector<double>{1});
  EXPECT_NE(error_text([&] { l.fit(0.1); }), "(no error)");
}

}  // namespace
}  // namespace plumb::test
