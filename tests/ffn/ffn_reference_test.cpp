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

template <class R>
void expect_reference(const std::string& kind, bool bias, const std::string& entry,
                      const std::map<std::string, std::string>& names) {
  const Entry& e = test::reference(entry);
  DecoderSpec s;
  s.d_model = 4, s.d_ff = 6, s.ffn.kind = kind, s.ffn.bias = bias;
  const std::vector<FfnEntry> table = ffn_table();
  const auto ffn = choose(table, "ffn", s.ffn.kind, s).template make<R>(s);
  std::map<std::string, Matrix<R>> start;
  for (const auto& [ours, theirs] : names) start.emplace(ours, Matrix<R>(e.in(theirs)));
  const auto ran = test::run_component<R>([&](Builder<R>& b, Value x) { return ffn->build(b, x, "ffn", 0); },
                                          Matrix<R>(e.in("x")), 1, Matrix<R>(e.in("dy")), start);
  EXPECT_TRUE(matches(ran.y, e, e.out("y"), What::value));
  EXPECT_TRUE(matches(ran.grads.at("x"), e, e.grad("x"), What::gradient));
  for (const auto& [ours, theirs] : names) {
    const Matrix<R> g = ran.grads.at(ours);
    EXPECT_TRUE(matches(g, e, e.grad(theirs), What::gradient)) << ours;
  }
}

TYPED_TEST(FfnReference, Gelu) {
  expect_reference<TypeParam>(
      "gelu", true, "ffn_gelu_erf",
      {{"ffn.in.weight", "W1"}, {"ffn.in.bias", "b1"}, {"ffn.out.weight", "W2"}, {"ffn.out.bias", "b2"}});
}

TYPED_TEST(FfnReference, Swiglu) {
  expect_reference<TypeParam>(
      "swiglu", false, "swiglu",
      {{"ffn.gate.weight", "W1_gate"}, {"ffn.in.weight", "W3_up"}, {"ffn.out.weight", "W2_down"}});
}

// With a gate that is all 1 in (by its bias) a gated kind is its activation of 1 times a linear network.
TEST(Ffn, GatedKindsAreTheirActivationOfTheGate) {
  for (const auto& [kind, of_one] : {std::pair{"swiglu", 0.7310585786300049},
                                     {"geglu", 0.8413447460685429},
                                     {"geglu_tanh", 0.8411919906082768},
                                     {"reglu", 1.0}}) {
    DecoderSpec s;
    s.d_model = 1, s.d_ff = 1, s.ffn.kind = kind, s.ffn.bias = true;
    const std::vector<FfnEntry> table = ffn_table();
    const auto ffn = choose(table, "ffn", s.ffn.kind, s).make<double>(s);
    const Matrix<double> zero(1, 1, 0), one(1, 1, 1);
    const auto ran =
        test::run_component<double>([&](Builder<double>& b, Value x) { return ffn->build(b, x, "ffn", 0); },
                                    Matrix<double>(1, 1, 3.0), 1, one,
                                    {{"ffn.gate.weight", zero},
                                     {"ffn.gate.bias", one},
                                     {"ffn.in.weight", one},
                                     {"ffn.in.bias", zero},
                                     {"ffn.out.weight", one},
                                     {"ffn.out.bias", zero}});
    EXPECT_NEAR(ran.y.data[0], 3 * of_one, 1e-14) << kind;
  }
}

}  // namespace
}  // namespace plumb
