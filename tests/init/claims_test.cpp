// What the two source documents say of variances and counts, with the right values where they are wrong.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "plumb/base/rng.h"
#include "plumb/kernel/activation.h"
#include "plumb/kernel/matmul.h"
#include "plumb/model/decoder.h"
#include "tests/support/reference.h"

namespace plumb {
namespace {

using test::Matrix;

// y = x W^T with x ~ N(0, 1) and W as the scheme draws it, in double.
Matrix<double> through(const std::string& scheme, std::int64_t rows, std::int64_t in, std::int64_t out) {
  DecoderSpec s;
  s.ffn.kind = "relu";
  const auto init = choose(init_table(), "init scheme", scheme, s).make<double>(s);
  const ParamRule rule = init->rule(
      {.name = "w", .role = Role::ffn_in, .shape = {{'O', out}, {'C', in}}, .fan_in = in, .fan_out = out}, 1);
  Matrix<double> x(rows, in), w(out, in), y(rows, out);
  stream(1, "claims").fill_normal(0, 1, std::span(x.data), 0);
  stream(1, "claims").fill_normal(0, rule.scale, std::span(w.data), 1);
  Product<double>({.m = rows, .n = out, .k = in, .trans_b = true})
      .run(x.data.data(), w.data.data(), nullptr, y.data.data(), nullptr);
  return y;
}

struct Moments {
  double mean, square;
};
Moments moments_of(const Matrix<double>& m) {
  const auto n = static_cast<double>(m.data.size());
  return {sum(m.view()) / n, sum_squares(m.view()) / n};
}

// Eqs. 2.15-2.16: Var y = n s_w^2 s_x^2, kept by s_w = 1/sqrt(n).
TEST(Claims, LeCunKeepsTheVariance) {
  EXPECT_NEAR(moments_of(through("lecun", 512, 512, 256)).square, 1, 0.02);
}

// [e]: with Kaiming the second moment after ReLU stays 1, with half its variance it is 0.5; the variance
// after ReLU is 1 - 1/pi.
TEST(Claims, KaimingKeepsTheSecondMomentThroughRelu) {
  for (const auto& [scheme, square] : {std::pair{"kaiming", 1.0}, {"lecun", 0.5}}) {
    const Matrix<double> z = through(scheme, 1024, 512, 512);
    Matrix<double> y(z.rows, z.cols);
    activation_forward<double>({.act = Act::relu}, z.view(), y.view());
    const Moments m = moments_of(y);
    EXPECT_NEAR(m.square, square, 0.02) << scheme;
    EXPECT_NEAR(m.square - m.mean * m.mean, square * (1 - 1 / std::acos(-1.0)), 0.02) << scheme;
  }
}

// [f], eqs. 2.17-2.18: a hundred writes of variance 1 make a stream of variance 101; times 1/sqrt(100), of 2.
TEST(Claims, WritesAddUpUnlessTheyAreScaledByTheRootOfTheirNumber) {
  constexpr std::int64_t width = 512, rows = 64, writes = 100;
  for (const auto& [factor, growth] : {std::pair{1.0, 101.0}, {1 / std::sqrt(100.0), 2.0}}) {
    Matrix<double> x(rows, width), write(rows, width);
    const Stream s = stream(2, "claims");
    s.fill_normal(0, 1, std::span(x.data), 0);
    const double before = moments_of(x).square;
    for (std::uint64_t i = 1; i <= writes; ++i) {
      s.fill_normal(0, 1, std::span(write.data), i);
      axpby<double>(1, x.view(), factor, std::as_const(write).view(), x.view());
    }
    EXPECT_NEAR(moments_of(x).square / before, growth, 0.03 * growth);
  }
  EXPECT_NEAR(std::pow(1.2, 48), 6320, 1);
  EXPECT_NEAR(std::pow(0.9, 48), 0.006, 5e-4);
}

// A27: tying saves 8.09 % of 12 layers and untying adds 8.80 %; 36.06 % is what untying adds to 2 layers.
TEST(Claims, WhatTyingSaves) {
  const auto total = [](std::int64_t n_layer, bool tied) {
    DecoderSpec s;
    s.n_layer = n_layer, s.tied_embeddings = tied;
    return static_cast<double>(count_params(s, decoder_layout<float>(s, Components{})).total);
  };
  EXPECT_NEAR(100 * (1 - total(12, true) / total(12, false)), 8.09, 5e-3);
  EXPECT_NEAR(100 * (total(12, false) / total(12, true) - 1), 8.80, 5e-3);
  EXPECT_NEAR(100 * (total(2, false) / total(2, true) - 1), 36.06, 5e-3);
}

// Answer 7: with A_l = 0 the product of (I + A_l) is I: the gradient arrives at the first block as it left
// the last.
TEST(Claims, TheIdentityPathCarriesTheGradientUnchanged) {
  DecoderSpec s;
  s.n_layer = 5, s.d_model = 16, s.n_head = 2, s.d_head = 8, s.d_ff = 24, s.block_size = 8, s.vocab_size = 13;
  s.residual = "skip_init";
  struct Gradients final : Hook<double> {
    std::map<std::string, std::vector<double>> seen;
    bool wants(std::string_view p, Dir d) const override {
      return d == Dir::backward && (p == "blocks.0.in" || p == "blocks.4.out");
    }
    void at(std::string_view p, Dir, View<double> v, int) override {
      seen[std::string(p)].assign(v.data, v.data + v.size());
    }
  } hook;
  Hook<double>* hooks[] = {&hook};
  const Components c;
  ParamStore<double> store(decoder_layout<double>(s, c), 1);
  ThreadPool pool(1);
  auto plan = make_plan<double>(s, c, store, {.batch = 1, .block = 8}, pool, hooks);
  const std::vector<std::int32_t> x = {1, 2, 3, 4, 5, 6, 7, 8};
  plan.loss_and_grad(x, x);
  ASSERT_EQ(hook.seen.size(), 2u);
  EXPECT_EQ(hook.seen.at("blocks.0.in"), hook.seen.at("blocks.4.out"));
}

}  // namespace
}  // namespace plumb
