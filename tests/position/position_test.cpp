// Position codes against the reference vectors and their definitions.
#include "plumb/position/position.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "plumb/kernel/attention.h"
#include "plumb/position/rope.h"
#include "tests/support/run_component.h"

namespace plumb {
namespace {

using test::Entry;
using test::Matrix;
using test::reference;

DecoderSpec with_heads(std::int64_t n_head) {
  DecoderSpec s;
  s.n_head = n_head;
  return s;
}

template <class R>
std::shared_ptr<const ScoreBias<R>> bias_of(const std::string& name, std::int64_t n_head) {
  const DecoderSpec s = with_heads(n_head);
  Builder<R> b({}, Mode::train, {});
  return choose(position_table(), "position", name, s).template make<R>(s)->bias(b).rule;
}

// The bias at distance 1 is minus the slope.
TEST(Alibi, SlopesForAnyNumberOfHeads) {
  const Entry& e = reference("alibi_slopes");
  for (const int n : {1, 2, 3, 4, 6, 8, 12, 16, 20, 32}) {
    const auto bias = bias_of<double>("alibi", n);
    std::vector<double> slopes;
    for (int h = 0; h < n; ++h) {
      double s = 0;
      bias->add({&s, 1, 1, 1}, h, 1, 0, {});
      slopes.push_back(-s);
    }
    EXPECT_TRUE(test::close(slopes, e.out("n" + std::to_string(n)), {e.rtol, e.atol})) << n;
  }
}

// slopes.bfloat16() * positions of PyTorch 2.15, 32 heads, which plumb divides by sqrt(d_head) and counts from the query.
TEST(Alibi, FalconsIsRoundedAsItsCodeRounds) {
  DecoderSpec s = with_heads(32);
  s.alibi_form = "falcon", s.d_head = 16;
  Builder<double> b({}, Mode::train, {});
  const auto bias = choose(position_table(), "position", "alibi", s).make<double>(s)->bias(b).rule;
  const std::vector<std::int64_t> positions{1, 3, 100, 255, 256, 257, 259, 301, 1001, 1999};
  const std::map<int, std::vector<double>> want{
      {0, {0.83984375, 2.515625, 84, 214, 215, 215, 218, 252, 840, 1680}},
      {1, {0.70703125, 2.125, 70.5, 180, 181, 181, 184, 212, 708, 1416}},
      {2, {0.59375, 1.78125, 59.5, 151, 152, 152, 154, 178, 592, 1184}},
      {4, {0.419921875, 1.2578125, 42, 107, 107.5, 107.5, 109, 126, 420, 840}}};
  for (const auto& [head, at] : want)
    for (std::size_t i = 0; i < positions.size(); ++i) {
      double score = 0;
      bias->add({&score, 1, 1, 1}, head, positions.back(), positions[i], {});
      EXPECT_EQ(score, (at[i] - at.back()) / 4) << head << " " << positions[i];
    }
}

template <class R>
class AlibiAttention : public testing::Test {};
using Reals = testing::Types<float, double>;
TYPED_TEST_SUITE(AlibiAttention, Reals);

TYPED_TEST(AlibiAttention, IsTheReferences) {
  using R = TypeParam;
  const Entry& e = reference("attention_alibi");
  const std::int64_t n_head = e.in("q").dim(1), t = e.in("q").dim(2), d = e.in("q").dim(3);
  const AttentionShape shape{.n_seq = 1,
                             .block = t,
                             .n_head = n_head,
                             .n_kv_head = n_head,
                             .d_head = d,
                             .scale = 1 / std::sqrt(static_cast<double>(d))};
  const Matrix<R> q = test::heads_last<R>(e.in("q")), k = test::heads_last<R>(e.in("k")),
                  v = test::heads_last<R>(e.in("v")), dy = test::heads_last<R>(e.in("dy"));
  Matrix<R> o(t, n_head * d), lse(t, n_head), dq(t, n_head * d), dk(t, n_head * d), dv(t, n_head * d);
  std::vector<R> scratch(attention_scratch<R>(shape));
  const auto bias = bias_of<R>("alibi", n_head);
  attention_forward<R>(shape, q.view(), k.view(), v.view(), bias.get(), {}, o.view(), lse.view(), {}, {},
                       scratch.data());
  EXPECT_TRUE(matches(test::heads_first(o, e.out("o")), e, e.out("o"), test::What::value));
  attention_backward<R>(shape, q.view(), k.view(), v.view(), bias.get(), {}, std::as_const(o).view(),
                        std::as_const(lse).view(), dy.view(), dq.sink(), dk.sink(), dv.sink(), {},
                        scratch.data());
  EXPECT_TRUE(matches(test::heads_first(dq, e.grad("q")), e, e.grad("q"), test::What::gradient));
  EXPECT_TRUE(matches(test::heads_first(dk, e.grad("k")), e, e.grad("k"), test::What::gradient));
  EXPECT_TRUE(matches(test::heads_first(dv, e.grad("v")), e, e.grad("v"), test::What::gradient));
}

// s[t] = (sin t, cos t, sin(t / 100), cos(t / 100)) for 4 channels: 10000^(2/4) = 100.
TEST(Sinusoidal, AddsSinesAndCosines) {
  const DecoderSpec s;
  const auto rule = choose(position_table(), "position", "sinusoidal", s).make<double>(s);
  const Matrix<double> x(6, 4, 0.25);  // two sequences of three
  const auto ran =
      test::run_component<double>([&](Builder<double>& b, Value v) { return rule->embed(b, v); }, x, 2, x);
  for (std::size_t i = 0; i < 6; ++i) {
    const double t = static_cast<double>(i % 3),
                 want[] = {std::sin(t), std::cos(t), std::sin(t / 100), std::cos(t / 100)};
    for (std::size_t j = 0; j < 4; ++j) EXPECT_NEAR(ran.y.data[4 * i + j], 0.25 + want[j], 1e-15);
  }
  EXPECT_EQ(ran.grads.at("x").data, x.data);
}

template <class R>
std::shared_ptr<const Rotation<R>> rope_of(const DecoderSpec& s, std::int64_t rows) {
  return choose(position_table(), "position", "rope", s).template make<R>(s)->rotation(rows);
}

DecoderSpec rope_spec(std::int64_t d_head, const std::string& layout = "half") {
  DecoderSpec s;
  s.d_head = d_head, s.rope.layout = layout;
  return s;
}

template <class R>
class RopeReference : public testing::Test {};
TYPED_TEST_SUITE(RopeReference, Reals);

TYPED_TEST(RopeReference, TurnsBothLayouts) {
  using R = TypeParam;
  for (const auto& [name, layout] :
       {std::pair{"rope_half_split", "half"}, {"rope_interleaved", "interleaved"}}) {
    const Entry& e = reference(name);
    const std::int64_t n_head = e.in("x").dim(0), t = e.in("x").dim(1), d = e.in("x").dim(2);
    const auto with_batch = [](test::Tensor x) {
      x.shape.insert(x.shape.begin(), 1);
      return x;
    };
    const Matrix<R> x = test::heads_last<R>(with_batch(e.in("x"))),
                    dy = test::heads_last<R>(with_batch(e.in("dy")));
    Matrix<R> y(t, n_head * d), dx(t, n_head * d);
    const auto rope = rope_of<R>(rope_spec(d, layout), t);
    rope->turn(x.view(), y.sink(), 0, t, false);
    rope->turn(dy.view(), dx.sink(), 0, t, true);
    EXPECT_TRUE(matches(test::heads_first(y, with_batch(e.out("y"))), e, e.out("y"), test::What::value))
        << name;
    EXPECT_TRUE(matches(test::heads_first(dx, with_batch(e.grad("x"))), e, e.grad("x"), test::What::gradient))
        << name;
  }
}

// Past the positions that are kept too: by 1000.
TEST(Rope, ScoresDependOnDistancesAlone) {
  const Entry& e = reference("rope_relative_property");
  const auto rope = rope_of<double>(rope_spec(8), 6);
  std::vector<double> dots;
  for (const auto& [m, n] : {std::pair{5, 2}, {3, 0}})
    for (const int shift : {0, 7, 1000}) {
      Matrix<double> q(e.in("q")), k(e.in("k"));
      rope->turn(q.view(), q.sink(), m + shift, m + shift + 1, false);
      rope->turn(k.view(), k.sink(), n + shift, n + shift + 1, false);
      double dot = 0;
      for (std::size_t i = 0; i < 8; ++i) dot += q.data[i] * k.data[i];
      dots.push_back(dot);
    }
  EXPECT_TRUE(test::close(dots, e.out("dots"), {e.rtol, e.atol}));
}

TEST(Rope, AnglesOfYarnNtkAndLinear) {
  DecoderSpec::Rope r;
  r.factor = 4, r.original_block_size = 2048;
  const auto close = [&](const char* scaling, const char* entry, const char* tensor) {
    r.scaling = scaling;
    const Entry& e = reference(entry);
    EXPECT_TRUE(test::close(rope_angles(r, 64, 2048).frequency, e.out(tensor), {e.rtol, e.atol})) << scaling;
  };
  close("none", "yarn_d64", "inv_freq_base");
  close("linear", "yarn_d64", "inv_freq_pi");
  close("yarn", "yarn_d64", "inv_freq_code");
  close("ntk", "ntk_d64", "inv_freq");
  r.scaling = "yarn";
  EXPECT_NEAR(rope_angles(r, 64, 2048).magnitude, reference("yarn_d64").out("mscale").scalar(), 1e-12);
  r.scaling = "ntk";
  for (const int d : {8, 16, 32, 64, 128}) {
    const double base = reference("ntk_bases").out("d" + std::to_string(d)).scalar();
    EXPECT_NEAR(rope_angles(r, d, 1).frequency[1], std::pow(base, -2.0 / d), 1e-12) << d;
  }
}

TEST(Rope, DynamicNtkFollowsTheLength) {
  const Entry& e = reference("dynamic_ntk_d64");
  DecoderSpec::Rope r;
  r.scaling = "dynamic_ntk", r.original_block_size = 2048;
  for (const int factor : {1, 2, 4})
    for (const int n : {1000, 2048, 4096, 8192}) {
      r.factor = factor;
      const double want = e.out("factor" + std::to_string(factor) + "_n" + std::to_string(n)).scalar();
      EXPECT_NEAR(dynamic_ntk_base(r, 64, n), want, 1e-9 * want);
    }
}

// The rest of a head passes through; d is what turns.
TEST(Rope, APartTurnsAsAHeadOfItsOwnWidth) {
  DecoderSpec part = rope_spec(8);
  part.rope.fraction = 0.5;
  Matrix<double> x(3, 16), y(3, 16), head(3, 4), turned(3, 4);
  for (std::size_t i = 0; i < 48; ++i) x.data[i] = 0.1 * static_cast<double>(i) - 2;
  rope_of<double>(part, 3)->turn(x.view(), y.sink(), 0, 3, false);
  for (int h = 0; h < 2; ++h) {
    for (std::int64_t t = 0; t < 3; ++t)
      for (std::int64_t j = 0; j < 4; ++j) head.view().row(t)[j] = x.view().row(t)[8 * h + j];
    rope_of<double>(rope_spec(4), 3)->turn(head.view(), turned.sink(), 0, 3, false);
    for (std::int64_t t = 0; t < 3; ++t)
      for (std::int64_t j = 0; j < 8; ++j)
        EXPECT_EQ(y.view().row(t)[8 * h + j], j < 4 ? turned.view().row(t)[j] : x.view().row(t)[8 * h + j]);
  }
}

}  // namespace
}  // namespace plumb
