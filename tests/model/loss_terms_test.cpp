// Label smoothing and z-loss in a whole decoder: gradients of what is minimised, and what is told apart.
#include <gtest/gtest.h>

#include "tests/support/decoder_rig.h"

namespace plumb {
namespace {

constexpr LossTerms terms{.label_smoothing = 0.2, .z_loss = 0.05};

PlanOptions options(const LossTerms& loss) {
  return {.batch = 5, .block = 16, .shard_tokens = 32, .loss = loss};  // three shards, the last shorter
}

TEST(LossTermsOfADecoder, GradientsMatchCentralDifferences) {
  for (const bool tied : {true, false}) {
    DecoderSpec spec = test::small_spec(2);
    spec.tied_embeddings = tied;
    spec.init.std = 0.3;
    test::DecoderRig<double> rig(spec, options(terms), 2);
    rig.tokens.y[7] = static_cast<std::int32_t>(spec.ignore_index);
    rig.step();
    const std::vector<double> grads(rig.plan.grads().begin(), rig.plan.grads().end());
    for (const ParamInfo& p : rig.store.layout().params) {
      const std::int64_t i = p.size() / 3;
      double& v = rig.store.view(p).data[i];
      const double v0 = v, h = 1e-4;
      const auto at = [&](double d) {
        v = v0 + d;
        return rig.plan.loss(rig.tokens.x, rig.tokens.y).loss;
      };
      const double n = (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h);
      v = v0;
      const double a = grads[static_cast<std::size_t>(p.offset + i)];
      EXPECT_NEAR(a, n, 1e-6 * std::max(1.0, std::abs(a)) * 1e-2 + 1e-9) << p.spec.name;
    }
  }
}

TEST(LossTermsOfADecoder, TheCrossEntropyIsToldWithoutThem) {
  const DecoderSpec spec = test::small_spec(2);
  test::DecoderRig<double> plain(spec, options({}), 1), more(spec, options(terms), 1);
  const LossResult a = plain.step(), b = more.step();
  EXPECT_EQ(a.loss, a.cross_entropy);
  EXPECT_EQ(b.cross_entropy, a.cross_entropy);
  // Logits near 0: the log-sum-exp is about ln V.
  const double lse = std::log(static_cast<double>(spec.vocab_size));
  EXPECT_NEAR(b.loss - b.cross_entropy, 0.05 * lse * lse, 0.02);
  EXPECT_NE(plain.grad_hash(), more.grad_hash());
}

TEST(LossTermsOfADecoder, TheSameBitsOnAnyNumberOfThreads) {
  test::DecoderRig<float> one(test::small_spec(), options(terms), 1),
      four(test::small_spec(), options(terms), 4);
  EXPECT_EQ(one.step().loss, four.step().loss);
  EXPECT_EQ(one.grad_hash(), four.grad_hash());
}

}  // namespace
}  // namespace plumb
