// Position codes against the reference vectors and their definitions.
#include "plumb/position/position.h"

#include <gtest/gtest.h>

#include <cmath>

#include "plumb/kernel/attention.h"
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

template <class R>
class AlibiAttention : public testing::Test {};
using Reals = testing::Types<float, double>;
TYPED_TEST_SUITE(AlibiAttention, Reals);

TYPED_TEST(AlibiAttention, IsTheReferences) {
  using R = TypeParam;
  const Entry& e = reference("attention_alibi");
  const std::int64_t n_head = e.in("q").dim(1), t = e.in("q").dim(2), d = e.in("q").dim(3);
  const AttentionShape shape{1, t, n_head, n_head, d, 1 / std::sqrt(static_cast<double>(d))};
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

}  // namespace
}  // namespace plumb
