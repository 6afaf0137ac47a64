// Feed-forward networks against the reference vectors.
#include <gtest/gtest.h>

#include "plumb/ffn/ffn.h"
#include "tests/support/run_component.h"

namespace plumb {
namespace {

using test::Entry;
using test::matches;
using test::Matrix;
using test::What;

template <class R>
class FfnReference : public testing::Test {};
using Reals = testing::Types<float, double>;
TYPED_TEST_SUITE(FfnReference, Reals);

TYPED_TEST(FfnReference, Gelu) {
  using R = TypeParam;
  const Entry& e = test::reference("ffn_gelu_erf");
  DecoderSpec s;
  s.d_model = 4, s.d_ff = 6, s.ffn.kind = "gelu", s.ffn.bias = true;
  const std::vector<FfnEntry> table = ffn_table();
  const auto ffn = choose(table, "ffn", s.ffn.kind, s).template make<R>(s);
  const std::map<std::string, std::string> names = {
      {"ffn.in.weight", "W1"}, {"ffn.in.bias", "b1"}, {"ffn.out.weight", "W2"}, {"ffn.out.bias", "b2"}};
  std::map<std::string, Matrix<R>> start;
  for (const auto& [ours, theirs] : names) start.emplace(ours, Matrix<R>(e.in(theirs)));
  const auto ran = test::run_component<R>(
      [&](Builder<R>& b, Value x) { return ffn->build(b, x, "ffn", 0); }, Matrix<R>(e.in("x")), 1,
      Matrix<R>(e.in("dy")), start);
  EXPECT_TRUE(matches(ran.y, e, e.out("y"), What::value));
  EXPECT_TRUE(matches(ran.grads.at("x"), e, e.grad("x"), What::gradient));
  for (const auto& [ours, theirs] : names) {
    Matrix<R> g = ran.grads.at(ours);
    EXPECT_TRUE(matches(g, e, e.grad(theirs), What::gradient)) << ours;
  }
}

}  // namespace
}  // namespace plumb
