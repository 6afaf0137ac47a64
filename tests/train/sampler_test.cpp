// Decoding with a cache against the full pass; sampling against its definition.
#include "plumb/train/sampler.h"

#include <gtest/gtest.h>

#include <cmath>

#include "plumb/kernel/matmul.h"
#include "plumb/model/decoder.h"
#include "tests/support/decoder_rig.h"
#include "tests/support/error_text.h"

namespace plumb {
namespace {

struct Catch final : Hook<float> {
  std::vector<float> logits;
  bool wants(std::string_view point, Dir dir) const override {
    return point == "logits" && dir == Dir::forward;
  }
  void at(std::string_view, Dir, View<float> v, int) override {
    logits.clear();
    for (std::int64_t i = 0; i < v.rows; ++i) logits.insert(logits.end(), v.row(i), v.row(i) + v.cols);
  }
};

// A few steps away from init, so that gains, biases and running statistics are not what they start as.
struct Difference {
  double first = 0, worst = 0;  // at position 0, at any
};
Difference difference(DecoderSpec spec) {
  Catch full;
  test::DecoderRig<float> rig(spec, {.batch = 4, .block = spec.block_size}, 1, {});
  for (float& p : rig.store.values())
    if (p != 0) p *= 1.5F;
  rig.step();
  rig.plan.commit();
  ThreadPool pool(1);
  std::vector<Hook<float>*> hooks{&full};
  auto eval = make_plan<float>(spec, Components{}, rig.store,
                               {.mode = Mode::eval, .batch = 1, .block = spec.block_size}, pool, hooks);
  const auto n = static_cast<std::size_t>(spec.block_size);
  const std::span<const std::int32_t> x(rig.tokens.x.data(), n), y(rig.tokens.y.data(), n);
  eval.loss(x, y);
  CachedDecoder decoder(spec, Components{}, rig.store, spec.block_size);
  Difference found;
  for (std::size_t t = 0; t < n; ++t) {
    const auto logits = decoder.next(x[t]);
    for (std::size_t v = 0; v < logits.size(); ++v) {
      const double d =
          std::abs(static_cast<double>(logits[v]) - static_cast<double>(full.logits[t * logits.size() + v]));
      found.worst = std::max(found.worst, d);
      if (t == 0) found.first = std::max(found.first, d);
    }
  }
  return found;
}

// Position 0 attends to itself alone, with weight 1: there the whole model is linear layers and what works
// row by row, and must agree to the bit. Elsewhere the two attentions add in different orders.
void expect_equal(const DecoderSpec& spec) {
  const Difference d = difference(spec);
  EXPECT_EQ(d.first, 0);
  EXPECT_LE(d.worst, 1e-5);
}

TEST(CachedDecoder, LogitsAreThoseOfTheFullPass) {
  DecoderSpec s = test::small_spec();
  expect_equal(s);
  s.position = "t5";
  s.attention.scale = "none";
  expect_equal(s);
  s = test::small_spec();
  s.position = "none";
  s.placement = "post";
  s.final_norm = false;
  expect_equal(s);
  s = test::small_spec();
  s.norm = "batch";
  s.residual = "hyper_connections";
  expect_equal(s);
  s = test::small_spec();
  s.ffn.kind = "moe";
  s.norm = "rms";
  s.placement = "parallel";
  expect_equal(s);
}

// A row of a linear layer has the same bits alone and among many, wherever it stands; and it is the product.
TEST(CachedDecoder, ALinearLayerOfOneRowHasTheBitsOfManyRows) {
  for (const auto& [n, k] : {std::pair<std::int64_t, std::int64_t>{384, 128},
                             {128, 256},
                             {1200, 128},
                             {61, 35},
                             {1, 1},
                             {2, 700}}) {
    std::vector<float> a(static_cast<std::size_t>(67 * k)), b(static_cast<std::size_t>(n * k)),
        bias(static_cast<std::size_t>(n)), all(static_cast<std::size_t>(67 * n)),
        one(static_cast<std::size_t>(n));
    const Stream s = stream(1, "linear");
    s.fill_normal(0, 1, std::span(a), 0);
    s.fill_normal(0, 1, std::span(b), 1);
    s.fill_normal(0, 1, std::span(bias), 2);
    const Product<float> many({.m = 67, .n = n, .k = k, .trans_b = true, .bias = true, .steady_rows = true}),
        single({.m = 1, .n = n, .k = k, .trans_b = true, .bias = true, .steady_rows = true});
    many.run(a.data(), b.data(), bias.data(), all.data(), nullptr);
    for (std::int64_t row = 0; row < 67; ++row) {
      single.run(a.data() + row * k, b.data(), bias.data(), one.data(), nullptr);
      for (std::int64_t i = 0; i < n; ++i) {
        const float y = one[static_cast<std::size_t>(i)];
        ASSERT_EQ(y, all[static_cast<std::size_t>(row * n + i)]) << n << " " << k << " " << row;
        double size = std::abs(double{bias[static_cast<std::size_t>(i)]}),
               exact = bias[static_cast<std::size_t>(i)];
        for (std::int64_t j = 0; j < k; ++j) {
          const double term = double{a[static_cast<std::size_t>(row * k + j)]} *
                              double{b[static_cast<std::size_t>(i * k + j)]};
          size += std::abs(term);
          exact += term;
        }
        // Any order of k + 1 terms is within this of the sum (Higham 2002, eq. 3.5).
        ASSERT_NEAR(y, exact, static_cast<double>(k + 1) * 0x1p-24 * size) << n << " " << k << " " << row;
      }
    }
  }
}

TEST(CachedDecoder, PastTheContextLearnedPositionsAreRefusedAndOthersSlide) {
  DecoderSpec s = test::small_spec();
  ParamStore<float> store(decoder_layout<float>(s, Components{}), 3);
  CachedDecoder learned(s, Components{}, store, s.block_size);
  for (int i = 0; i < 16; ++i) learned.next(5);
  EXPECT_NE(test::error_text([&] { learned.next(5); }).find("learned positions end at block_size 16"),
            std::string::npos);

  // One layer without positions sees a set of keys: after sliding, the same as a fresh pass over the last 16
  // tokens.
  s.position = "none";
  s.n_layer = 1;
  ParamStore<float> one(decoder_layout<float>(s, Components{}), 3);
  CachedDecoder slides(s, Components{}, one, 16), fresh(s, Components{}, one, 16);
  std::vector<float> last;
  for (std::int32_t t = 0; t < 40; ++t) {
    const auto l = slides.next(t);
    last.assign(l.begin(), l.end());
  }
  std::span<const float> expected;
  for (std::int32_t t = 24; t < 40; ++t) expected = fresh.next(t);
  for (std::size_t i = 0; i < last.size(); ++i) EXPECT_EQ(last[i], expected[i]);
}

TEST(Draw, FollowsTheSoftmaxOfTheTopK) {
  // p of tokens 1..4 at temperature 2: exp(l/2) normalised over the top three.
  const std::vector<float> logits{9, 2, 1, 0, -1};
  std::vector<double> share(5);
  constexpr int n = 20000;
  for (int i = 0; i < n; ++i)
    share[static_cast<std::size_t>(draw(logits, {.temperature = 2, .top_k = 3, .seed = 4}, 0, i))] += 1.0 / n;
  const double z = std::exp(1.0) + std::exp(0.5) + 1;
  // four standard errors of a proportion
  EXPECT_NEAR(share[1], std::exp(1.0) / z, 4 * 0.0036);
  EXPECT_NEAR(share[2], std::exp(0.5) / z, 4 * 0.0036);
  EXPECT_NEAR(share[3], 1 / z, 4 * 0.0036);
  EXPECT_EQ(share[0], 0);  // the unknown token
  EXPECT_EQ(share[4], 0);
  EXPECT_EQ(draw(logits, {.temperature = 0}, 0, 0), 1);
}

}  // namespace
}  // namespace plumb
