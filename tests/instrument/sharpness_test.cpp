// Curvature against differences of the loss, and against that of parts.
#include <cmath>

#include "plumb/base/error.h"
#include "plumb/study/curvature.h"
#include "tests/instrument/rig.h"

namespace plumb::test {
namespace {

// v'Hv is the second derivative of the loss along v: (L(w + e v) - 2 L(w) + L(w - e v)) / e².
TEST(Sharpness, IsTheSecondDerivativeOfTheLoss) {
  OnSmall s;
  LossHessian h(s.p);
  const Steepest c = steepest_direction(s.p, h, [] {});
  const auto loss_at = [&](double by) {
    const std::span<float> w = s.p.store.values();
    const std::vector<float> before(w.begin(), w.end());
    for (std::size_t i = 0; i < w.size(); ++i)
      w[i] = static_cast<float>(static_cast<double>(w[i]) + by * c.direction[i]);
    const double loss = s.p.pass(Mode::train).loss.loss;
    std::ranges::copy(before, w.begin());
    return loss;
  };
  // The loss is right to some 1e-7: a step that changes it by a thousandth leaves 1e-4 of that, and little of e².
  const double e = std::sqrt(0.002 / std::abs(c.eigenvalue));
  const double second = (loss_at(e) - 2 * loss_at(0) + loss_at(-e)) / (e * e);
  EXPECT_TRUE(c.settled);
  EXPECT_NEAR(c.eigenvalue, second, 0.03 * std::abs(second));
}

// The Hessian of one tensor alone has no larger eigenvalue than that of all (Cauchy's interlacing): power iteration in each.
TEST(Sharpness, NoPartIsSteeper) {
  OnSmall s;
  LossHessian h(s.p);
  const Steepest c = steepest_direction(s.p, h, [] {});
  for (const ParamInfo& i : s.p.store.layout().params) {
    std::vector<double> v(c.direction.size(), 0.0);
    const auto from = static_cast<std::size_t>(i.offset), n = static_cast<std::size_t>(i.size());
    for (std::size_t k = from; k < from + n; ++k) v[k] = 1 / std::sqrt(static_cast<double>(n));
    double value = 0;
    for (int round = 0; round < 5; ++round) {
      const std::vector<double> hv = h.times(v);
      double size = 0;
      value = 0;
      for (std::size_t k = from; k < from + n; ++k) value += hv[k] * v[k], size += hv[k] * hv[k];
      for (std::size_t k = from; k < from + n; ++k) v[k] = hv[k] / std::sqrt(size);
    }
    EXPECT_LT(value, 1.02 * c.eigenvalue) << i.spec.name;
  }
}

// v'Hw = w'Hv.
TEST(Sharpness, TheHessianIsSymmetric) {
  OnSmall s;
  const std::size_t n = s.p.store.values().size();
  const auto random = [&](std::uint64_t seed) {
    std::vector<double> v(n);
    stream(seed, "direction").fill_normal(0, 1 / std::sqrt(static_cast<double>(n)), v);
    return v;
  };
  const auto dot = [](const std::vector<double>& a, const std::vector<double>& b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
    return sum;
  };
  const auto v = random(1);
  // Of a random pair both sides are near 0: of the steepest direction one is not.
  LossHessian h(s.p);
  const Steepest c = steepest_direction(s.p, h, [] {});
  std::vector<double> w = c.direction;
  for (std::size_t i = 0; i < n; ++i) w[i] = (w[i] + v[i]) / std::sqrt(2.0);
  const double one = dot(h.times(c.direction), w), other = dot(h.times(w), c.direction);
  EXPECT_NEAR(one, other, 0.02 * std::abs(one));
}

TEST(Sharpness, LeavesTheParametersAlone) {
  OnSmall s;
  const Json r = s.read("sharpness");
  EXPECT_NEAR(number(r, "two_over_eigenvalue"), 2 / number(r, "eigenvalue"), 1e-12);
  const std::string before = s.p.store.hash();
  int asked = 0;
  EXPECT_THROW(s.read("sharpness", {.interrupted = [&] { return ++asked == 3; }}), Error);
  EXPECT_EQ(s.p.store.hash(), before);
}

}  // namespace
}  // namespace plumb::test
