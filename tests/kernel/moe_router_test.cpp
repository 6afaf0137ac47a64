// Routing against the reference vectors, ties and NaN.
#include "plumb/kernel/moe_router.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/reference.h"

namespace plumb {
namespace {

using test::Entry;
using test::matches;
using test::Matrix;
using test::reference;
using test::What;

template <class R>
class MoeRouter : public testing::Test {};
using Reals = testing::Types<float, double>;
TYPED_TEST_SUITE(MoeRouter, Reals);

template <class R>
struct Routed {
  Routed(const Matrix<R>& logits, std::int64_t k)
      : prob(logits.rows, logits.cols),
        lse(logits.rows, 1),
        index(logits.rows, k),
        weight(logits.rows, k),
        count(1, logits.cols) {
    moe_route<R>(logits.view(), prob.view(), lse.view(), index.view(), weight.view());
  }
  Matrix<R> prob, lse, index, weight, count;
};

TYPED_TEST(MoeRouter, MatchesTheReference) {
  using R = TypeParam;
  const Entry& e = reference("moe_router");
  Routed<R> r(Matrix<R>(e.out("logits")), 2);
  EXPECT_TRUE(matches(r.prob, e, e.out("prob"), What::value));
  EXPECT_TRUE(matches(r.index, e, e.out("index"), What::value));
  EXPECT_TRUE(matches(r.weight, e, e.out("weight"), What::value));
  const View<const R> prob = r.prob.view(), index = r.index.view();
  EXPECT_TRUE(
      matches<R>(moe_balance(prob, index.columns(0, 1), r.count.view()), e, e.out("lb_switch"), What::value));
  EXPECT_TRUE(matches<R>(moe_balance(prob, index, r.count.view()), e, e.out("lb_hf"), What::value));
  EXPECT_TRUE(matches<R>(moe_z(View<const R>(r.lse.view())), e, e.out("z"), What::value));

  // The gradients are those of 0.01 lb_hf + 0.001 z through logits = x W^T.
  Matrix<R> dlogits(prob.rows, prob.cols), dweight(prob.rows, 2);
  moe_route_backward<R>(prob, r.lse.view(), index, r.weight.view(), r.count.view(), dweight.view(), 0.01,
                        0.001, dlogits.sink());
  const Matrix<R> x(e.in("x")), w(e.in("W"));
  Matrix<R> dx(x.rows, x.cols), dw(w.rows, w.cols);
  for (std::int64_t i = 0; i < x.rows; ++i)
    for (std::int64_t k = 0; k < w.rows; ++k)
      for (std::int64_t j = 0; j < w.cols; ++j) {
        const R g = dlogits.view().row(i)[k];
        dx.view().row(i)[j] += g * w.view().row(k)[j];
        dw.view().row(k)[j] += g * x.view().row(i)[j];
      }
  EXPECT_TRUE(matches(dx, e, e.grad("x"), What::gradient));
  EXPECT_TRUE(matches(dw, e, e.grad("W"), What::gradient));
}

TYPED_TEST(MoeRouter, EqualLogitsGoToTheLowerIndex) {
  using R = TypeParam;
  Matrix<R> logits(2, 4);
  logits.data = {1, 1, 1, 1, 0, 3, 0, 3};
  const Routed<R> r(logits, 2);
  EXPECT_EQ(r.index.data, (std::vector<R>{0, 1, 1, 3}));
  EXPECT_EQ(r.weight.data, (std::vector<R>(4, R(0.5))));
}

TYPED_TEST(MoeRouter, SpreadEvenlyTheBalanceIsK) {
  using R = TypeParam;
  Matrix<R> logits(4, 4);
  for (std::int64_t i = 0; i < 4; ++i)
    logits.view().row(i)[i] = R(1), logits.view().row(i)[(i + 1) % 4] = R(0.5);
  Routed<R> r(logits, 2);
  EXPECT_NEAR(moe_balance<R>(std::as_const(r.prob).view(), std::as_const(r.index).view(), r.count.view()), 2,
              1e-6);
}

TYPED_TEST(MoeRouter, NanReachesTheWeightsAndTheIndicesStayValid) {
  using R = TypeParam;
  for (std::size_t at : {0u, 1u, 2u}) {
    Matrix<R> logits(1, 3);
    logits.data[at] = static_cast<R>(NAN);
    const Routed<R> r(logits, 2);
    for (R w : r.weight.data) EXPECT_TRUE(std::isnan(w));
    for (R i : r.index.data) EXPECT_TRUE(i >= 0 && i < 3);
    EXPECT_NE(r.index.data[0], r.index.data[1]);
  }
}

}  // namespace
}  // namespace plumb
