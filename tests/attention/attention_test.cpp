// Attention's own parts against the reference vectors: norms of queries and keys. (The kernels:
// tests/kernel.)
#include "plumb/attention/attention.h"

#include <gtest/gtest.h>

#include <cmath>

#include "plumb/kernel/attention.h"
#include "tests/support/run_component.h"

namespace plumb {
namespace {

using test::Entry;
using test::matches;
using test::Matrix;
using test::What;

/// Attention over q and k normalised as `kind` says, and all its gradients.
template <class R>
struct Normalised {
  std::map<std::string, Matrix<R>> q_grads, k_grads;
  Matrix<R> o, dv;

  using Start = std::map<std::string, Matrix<R>>;
  Normalised(const Entry& e, const std::string& kind, double scale, const Start& q_start,
             const Start& k_start) {
    const test::Tensor& t = e.in("q");
    DecoderSpec s;
    s.n_head = s.n_kv_head = t.dim(1), s.d_head = t.dim(3), s.block_size = t.dim(2);
    s.norm_eps = kind == "l2" ? 1e-5 : e.param("eps"), s.attention.qk_norm = kind;
    const Matrix<R> q = test::heads_last<R>(t), k = test::heads_last<R>(e.in("k")),
                    v = test::heads_last<R>(e.in("v")), dy = test::heads_last<R>(e.in("dy"));
    const auto norm = [&](bool is_query, const Matrix<R>& x, const Matrix<R>& d) {
      return test::run_component<R>(
          [&](Builder<R>& b, Value in) {
            return qk_norm(b, in, s, is_query, is_query ? "q_norm" : "k_norm", 0);
          },
          x, t.dim(0), d, is_query ? q_start : k_start);
    };
    const Matrix<R> qn = norm(true, q, {}).y, kn = norm(false, k, {}).y;
    const AttentionShape shape{.n_seq = t.dim(0),
                               .block = t.dim(2),
                               .n_head = t.dim(1),
                               .n_kv_head = t.dim(1),
                               .d_head = t.dim(3),
                               .scale = scale};
    std::vector<R> scratch(attention_scratch<R>(shape));
    Matrix<R> lse(q.rows, s.n_head), dq(q.rows, q.cols), dk(q.rows, q.cols);
    o = dv = Matrix<R>(q.rows, q.cols);
    attention_forward<R>(shape, qn.view(), kn.view(), v.view(), nullptr, {}, o.view(), lse.view(), {}, {},
                         scratch.data());
    attention_backward<R>(shape, qn.view(), kn.view(), v.view(), nullptr, {}, std::as_const(o).view(),
                          std::as_const(lse).view(), dy.view(), dq.sink(), dk.sink(), dv.sink(), {},
                          scratch.data());
    q_grads = norm(true, q, dq).grads;
    k_grads = norm(false, k, dk).grads;
  }
};

template <class R>
class QkNorm : public testing::Test {};
using Reals = testing::Types<float, double>;
TYPED_TEST_SUITE(QkNorm, Reals);

TYPED_TEST(QkNorm, RmsOfEachHead) {
  using R = TypeParam;
  const Entry& e = test::reference("attention_qknorm_rms");
  const Normalised<R> n(e, "rms", 1 / std::sqrt(static_cast<double>(e.in("q").dim(3))),
                        {{"q_norm.gamma", Matrix<R>(e.in("wq"))}}, {{"k_norm.gamma", Matrix<R>(e.in("wk"))}});
  EXPECT_TRUE(matches(test::heads_first(n.o, e.out("o")), e, e.out("o"), What::value));
  EXPECT_TRUE(matches(test::heads_first(n.q_grads.at("x"), e.grad("q")), e, e.grad("q"), What::gradient));
  EXPECT_TRUE(matches(test::heads_first(n.k_grads.at("x"), e.grad("k")), e, e.grad("k"), What::gradient));
  EXPECT_TRUE(matches(test::heads_first(n.dv, e.grad("v")), e, e.grad("v"), What::gradient));
  EXPECT_TRUE(matches(n.q_grads.at("q_norm.gamma"), e, e.grad("wq"), What::gradient));
  EXPECT_TRUE(matches(n.k_grads.at("k_norm.gamma"), e, e.grad("wk"), What::gradient));
}

// The temperature starts where the entry has it: log2(L^2 - L), L = 5.
TYPED_TEST(QkNorm, L2WithItsTemperature) {
  using R = TypeParam;
  const Entry& e = test::reference("attention_qknorm_l2");
  const Normalised<R> n(e, "l2", 1, {}, {});
  EXPECT_TRUE(matches(test::heads_first(n.o, e.out("o")), e, e.out("o"), What::value));
  EXPECT_TRUE(matches(test::heads_first(n.q_grads.at("x"), e.grad("q")), e, e.grad("q"), What::gradient));
  EXPECT_TRUE(matches(test::heads_first(n.k_grads.at("x"), e.grad("k")), e, e.grad("k"), What::gradient));
  EXPECT_TRUE(matches(n.q_grads.at("q_norm.temperature"), e, e.grad("g"), What::gradient));
  EXPECT_EQ(n.k_grads.count("k_norm.temperature"), 0U);
}

/// q of 2 heads of 3 after a norm of this kind, of one row.
std::vector<double> normed(const std::string& kind, const std::vector<double>& row) {
  DecoderSpec s;
  s.n_head = s.n_kv_head = 2, s.d_head = 3, s.norm_eps = 0, s.attention.qk_norm = kind;
  Matrix<double> x(1, 6);
  x.data = row;
  return test::run_component<double>(
             [&](Builder<double>& b, Value in) { return qk_norm(b, in, s, false, "k_norm", 0); }, x, 1, {})
      .y.data;
}

// By hand: heads (1, 2, 3) and (2, 0, 4); mean squares 14/3 and 20/3, of both 34/6; means 2 and 2, variances
// 2/3 and 8/3.
TEST(QkNormKinds, ByHand) {
  const std::vector<double> x{1, 2, 3, 2, 0, 4};
  const auto expect = [&](const char* kind, const std::vector<double>& shift,
                          const std::vector<double>& size) {
    const std::vector<double> y = normed(kind, x);
    for (std::size_t i = 0; i < 6; ++i)
      EXPECT_NEAR(y[i], (x[i] - shift[i / 3]) / size[i / 3], 1e-14) << kind << i;
  };
  expect("none", {0, 0}, {1, 1});
  expect("l2", {0, 0}, {std::sqrt(14), std::sqrt(20)});
  expect("rms", {0, 0}, {std::sqrt(14.0 / 3), std::sqrt(20.0 / 3)});
  expect("rms_all", {0, 0}, {std::sqrt(34.0 / 6), std::sqrt(34.0 / 6)});
  expect("layer", {2, 2}, {std::sqrt(2.0 / 3), std::sqrt(8.0 / 3)});
}

}  // namespace
}  // namespace plumb
