// How the residual stream grows with depth at init. Activation std is that of a block's output over all elements; "first" is
// block 1's output, "last" block L's. Expected: an independent PyTorch measurement on the same model (not the chapter's figure,
// which was taken without scaled init and compared with a bound for the scaled one).
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

struct Scale {
  double act_ratio = 0, act_sd = 0, last_grad = 0;
};

Scale measure(std::int64_t n_layer, bool residual_scale, const std::string& placement) {
  DecoderSpec s;
  s.n_layer = n_layer, s.init.residual_scale = residual_scale, s.placement = placement;
  s.final_norm = placement == "pre";
  std::vector<double> ratios;
  Scale out;
  constexpr int seeds = 3;
  for (int seed = 0; seed < seeds; ++seed) {
    const auto act = probe("activation", s), grad = probe("gradient", s);
    test::DecoderRig<float> rig(s, {.batch = 32, .block = 64}, 0, {act.get(), grad.get()}, static_cast<std::uint64_t>(seed));
    rig.step();
    StepRow row;
    act->write(row);
    grad->write(row);
    ratios.push_back(row.find_layers("act_std")->back() / row.find_layers("act_std")->front());
    out.last_grad += row.find_layers("grad_std")->back() / seeds;
  }
  for (double r : ratios) out.act_ratio += r / seeds;
  for (double r : ratios) out.act_sd += (r - out.act_ratio) * (r - out.act_ratio) / (seeds - 1);
  out.act_sd = std::sqrt(out.act_sd);
  return out;
}

class InitScale : public testing::TestWithParam<std::tuple<int, double, double>> {};

TEST_P(InitScale, ActivationsLastOverFirst) {
  const auto [n_layer, plain, scaled] = GetParam();
  const Scale p = measure(n_layer, false, "pre"), g = measure(n_layer, true, "pre"), post = measure(n_layer, false, "post");
  std::printf("L %2d: act std last/first %.2f +- %.2f plain, %.2f +- %.2f gpt2; last block's gradient std pre %.2e, post %.2e\n",
              n_layer, p.act_ratio, p.act_sd, g.act_ratio, g.act_sd, p.last_grad, post.last_grad);
  EXPECT_NEAR(p.act_ratio, plain, 0.15);
  EXPECT_NEAR(g.act_ratio, scaled, 0.15);
  // Post-LN's is std(W_head) / tokens = 0.02 / 2048 whatever the depth (measured elsewhere 9.6e-6 … 9.8e-6).
  EXPECT_NEAR(post.last_grad, 0.02 / 2048, 0.03 * 0.02 / 2048);
}

INSTANTIATE_TEST_SUITE_P(Depth, InitScale,
                         testing::Values(std::tuple{6, 2.61, 1.36}, std::tuple{12, 3.93, 1.41}, std::tuple{24, 5.86, 1.46},
                                         std::tuple{48, 7.58, 1.46}));

}  // namespace
}  // namespace plumb
