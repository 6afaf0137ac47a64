// Noise and signal of gradients, from a plain loop.
#include <cmath>

#include "plumb/model/decoder.h"
#include "tests/instrument/rig.h"

namespace plumb::test {
namespace {

// S is the trace of the covariance of one sequence's gradient. With every sequence's gradient at hand it is the sample
// variance (divided by b - 1) of 8, averaged; |G|² is |mean|² minus what S adds to it.
TEST(NoiseScale, IsTheVarianceOfTheSequencesGradients) {
  OnSmall s;
  const Json r = s.read("noise_scale");
  const std::size_t b = 8, batches = 16, block = 16;
  ThreadPool pool(1);
  Plan<float> one = make_plan<float>(s.p.spec, s.components, s.p.store,
                                     {.mode = Mode::train, .batch = 1, .block = 16}, pool);
  double variance = 0, signal = 0;
  std::vector<std::int32_t> x(b * block), y(x.size());
  for (std::size_t i = 0; i < batches; ++i) {
    s.p.feed.fill(0, static_cast<std::int64_t>(i * b), x, y);
    std::vector<std::vector<double>> g;
    for (std::size_t k = 0; k < b; ++k) {
      one.loss_and_grad(std::span(x).subspan(k * block, block), std::span(y).subspan(k * block, block));
      g.emplace_back(one.grads().begin(), one.grads().end());
    }
    double here = 0, squared = 0;
    for (std::size_t j = 0; j < g[0].size(); ++j) {
      double mean = 0;
      for (const auto& v : g) mean += v[j] / static_cast<double>(b);
      for (const auto& v : g) here += (v[j] - mean) * (v[j] - mean) / static_cast<double>(b - 1);
      squared += mean * mean;
    }
    variance += here / static_cast<double>(batches);
    signal += (squared - here / static_cast<double>(b)) / static_cast<double>(batches);
  }
  EXPECT_NEAR(number(r, "noise"), variance, 1e-4 * variance);
  EXPECT_NEAR(number(r, "signal"), signal, 1e-4 * signal);
  EXPECT_NEAR(number(r, "scale"), variance / signal, 1e-3 * variance / signal);
  EXPECT_LT(number(r, "low"), number(r, "scale"));
  EXPECT_GT(number(r, "high"), number(r, "scale"));
}

}  // namespace
}  // namespace plumb::test
