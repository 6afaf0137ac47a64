// How the residual stream grows with depth at init. Activation std is that of a block's output over all elements; "first" is
// block 1's output, "last" block L's. Expected: means over 16 seeds of the same model in PyTorch 1.13
// (bench/peers/torch/matched.py --seeds 16). A seed's ratio scatters by 5 % (our 8 seeds: sd 0.12, 0.14, 0.19, 0.40 for L = 6,
// 12, 24, 48 without scaled init), which is why three seeds cannot place it within 0.15 for the deep ones.
#include <gtest/gtest.h>

#include <cmath>

#include "plumb/probe/probe.h"
#include "tests/support/decoder_rig.h"

namespace plumb {
namespace {

std::unique_ptr<Probe> probe(const std::string& name, const DecoderSpec& s) {
  for (const ProbeEntry& e : probe_table())
    if (e.name == name) return e.make(s);
  throw std::runtime_error("no probe " + name);
}

struct Ratio {
  double mean = 0, sd = 0;
};

constexpr int seeds = 8;

Ratio act_last_over_first(std::int64_t n_layer, bool residual_scale) {
  DecoderSpec s;
  s.n_layer = n_layer, s.init.residual_scale = residual_scale;
  std::vector<double> ratios;
  for (int seed = 0; seed < seeds; ++seed) {
    const auto act = probe("activation", s);
    test::DecoderRig<float> rig(s, {.mode = Mode::eval, .batch = 32, .block = 64}, 0, {act.get()},
                                static_cast<std::uint64_t>(seed));
    rig.plan.loss(rig.tokens.x, rig.tokens.y);
    StepRow row;
    act->write(row);
    ratios.push_back(row.find_layers("act_std")->back() / row.find_layers("act_std")->front());
  }
  Ratio out;
  for (double r : ratios) out.mean += r / seeds;
  for (double r : ratios) out.sd += (r - out.mean) * (r - out.mean) / (seeds - 1);
  out.sd = std::sqrt(out.sd);
  return out;
}

double last_grad_std(std::int64_t n_layer, const std::string& placement) {
  DecoderSpec s;
  s.n_layer = n_layer, s.init.residual_scale = false, s.placement = placement, s.final_norm = placement == "pre";
  const auto grad = probe("gradient", s);
  test::DecoderRig<float> rig(s, {.batch = 32, .block = 64}, 0, {grad.get()});
  rig.step();
  StepRow row;
  grad->write(row);
  return row.find_layers("grad_std")->back();
}

struct Depth {
  int n_layer;
  double plain, sd, scaled;
};
class InitScale : public testing::TestWithParam<Depth> {};

TEST_P(InitScale, ActivationsLastOverFirst) {
  const Depth want = GetParam();
  const Ratio plain = act_last_over_first(want.n_layer, false), scaled = act_last_over_first(want.n_layer, true);
  const double pre = last_grad_std(want.n_layer, "pre"), post = last_grad_std(want.n_layer, "post");
  std::printf("L %2d: act std last/first %.2f +- %.2f plain, %.2f +- %.2f gpt2; last block's gradient std pre %.2e, post %.2e\n",
              want.n_layer, plain.mean, plain.sd, scaled.mean, scaled.sd, pre, post);
  // Three standard errors of a difference of means over 8 and 16 seeds.
  EXPECT_NEAR(plain.mean, want.plain, 3 * want.sd * std::sqrt(1.0 / seeds + 1.0 / 16));
  EXPECT_NEAR(scaled.mean, want.scaled, 0.03);
  // Post-LN's is std(W_head) / tokens = 0.02 / 2048 whatever the depth (PyTorch: 9.76e-6 … 9.77e-6).
  EXPECT_NEAR(post, 0.02 / 2048, 0.03 * 0.02 / 2048);
  // Pre-LN's falls as its stream grows (PyTorch: 8.04e-5, 5.32e-5, 3.55e-5, 2.40e-5).
  EXPECT_GT(pre, 2 * post);
}

std::string depth_name(const testing::TestParamInfo<Depth>& info) {
  return "L" + std::to_string(info.param.n_layer);
}
INSTANTIATE_TEST_SUITE_P(Depth, InitScale,
                         testing::Values(Depth{6, 2.51, 0.12, 1.34}, Depth{12, 3.78, 0.14, 1.39},
                                         Depth{24, 5.66, 0.19, 1.43}),
                         depth_name);
INSTANTIATE_TEST_SUITE_P(SlowDepth, InitScale, testing::Values(Depth{48, 8.30, 0.40, 1.45}), depth_name);

}  // namespace
}  // namespace plumb
