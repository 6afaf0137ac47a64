// Weight parametrisations as they stand in a graph, against PyTorch's vectors: y = I w^T shows the matrix
// that is multiplied.
#include <gtest/gtest.h>

#include <cmath>

#include "plumb/model/decoder.h"
#include "tests/support/error_text.h"
#include "tests/support/run_component.h"

namespace plumb {
namespace {

using test::Entry;
using test::matches;
using test::Matrix;
using test::reference;
using test::Tensor;
using test::What;

template <class R>
class WeightsReference : public testing::Test {};
using Reals = testing::Types<float, double>;
TYPED_TEST_SUITE(WeightsReference, Reals);

template <class R>
Matrix<R> identity(std::int64_t n) {
  Matrix<R> m(n, n);
  for (std::int64_t i = 0; i < n; ++i) m.view().row(i)[i] = 1;
  return m;
}

template <class R>
Matrix<R> transposed(const Matrix<R>& m) {
  Matrix<R> t(m.cols, m.rows);
  for (std::int64_t i = 0; i < m.rows; ++i)
    for (std::int64_t j = 0; j < m.cols; ++j) t.view().row(j)[i] = m.view().row(i)[j];
  return t;
}

// x w^T for the weight (out, in) called "w.weight" under this parametrisation.
template <class R>
test::Ran<R> run(const char* name, std::int64_t out, const Matrix<R>& x, const Matrix<R>& dy,
                 const std::map<std::string, Matrix<R>>& start) {
  DecoderSpec s;
  const std::vector<WeightEntry> table = weight_table();
  const auto weight = choose(table, "weight_param", name, s).template make<R>(s);
  return test::run_component<R>(
      [&](Builder<R>& b, Value v) {
        const Value stored = b.param({.name = "w.weight",
                                      .role = Role::ffn_in,
                                      .shape = {{'O', out}, {'C', x.cols, true}},
                                      .fan_in = x.cols,
                                      .fan_out = out});
        const Value w = weight->transform(b, stored,
                                          {.name = "w.weight",
                                           .role = Role::ffn_in,
                                           .shape = {{'O', out}, {'C', x.cols, true}},
                                           .fan_in = x.cols,
                                           .fan_out = out});
        return b.product(v, w, std::nullopt, "y");
      },
      x, 1, dy, start);
}

TYPED_TEST(WeightsReference, ScaledWeightStandardisation) {
  using R = TypeParam;
  const Entry& e = reference("scaled_weight_standardization");
  const Matrix<R> w(e.in("W"));
  const auto ran = run<R>("scaled_ws", w.rows, identity<R>(w.cols), transposed(Matrix<R>(e.in("dy"))),
                          {{"w.weight", w}, {"w.weight_gain", Matrix<R>(e.in("gain"))}});
  EXPECT_TRUE(matches(transposed(ran.y), e, e.out("What"), What::value));
  EXPECT_TRUE(matches(ran.grads.at("w.weight"), e, e.grad("W"), What::gradient));
  EXPECT_TRUE(matches(ran.grads.at("w.weight_gain"), e, e.grad("gain"), What::gradient));
}

TYPED_TEST(WeightsReference, WeightNorm) {
  using R = TypeParam;
  const Entry& e = reference("weightnorm");
  const Matrix<R> v(e.in("v"));
  const std::map<std::string, Matrix<R>> start{{"w.weight", v}, {"w.weight_g", Matrix<R>(e.in("g"))}};
  const auto shown = run<R>("weight_norm", v.rows, identity<R>(v.cols), {}, start);
  EXPECT_TRUE(matches(transposed(shown.y), e, e.out("w"), What::value));
  const auto ran = run<R>("weight_norm", v.rows, Matrix<R>(e.in("x")), Matrix<R>(e.in("dy")), start);
  EXPECT_TRUE(matches(ran.y, e, e.out("y"), What::value));
  EXPECT_TRUE(matches(ran.grads.at("w.weight"), e, e.grad("v"), What::gradient));
  EXPECT_TRUE(matches(ran.grads.at("w.weight_g"), e, e.grad("g"), What::gradient));
}

// g = |v|: the model starts as the plain one does.
TEST(WeightNorm, StartsAsThePlainModel) {
  DecoderSpec s;
  s.n_layer = 2, s.d_model = 16, s.n_head = 2, s.d_head = 8, s.d_ff = 24, s.block_size = 8, s.vocab_size = 13;
  const Components c;
  double loss[2];
  for (int i = 0; i < 2; ++i) {
    s.weight_param = i ? "weight_norm" : "plain";
    ParamStore<double> store(decoder_layout<double>(s, c), 5);
    ThreadPool pool(1);
    auto plan = make_plan<double>(s, c, store, {.mode = Mode::eval, .batch = 1, .block = 8}, pool, {});
    const std::vector<std::int32_t> x = {1, 2, 3, 4, 5, 6, 7, 8};
    loss[i] = plan.loss(x, x).loss;
  }
  EXPECT_NEAR(loss[1], loss[0], 1e-12);
}

TEST(WeightNorm, AMatrixOfZerosIsRefused) {
  DecoderSpec s;
  s.weight_param = "weight_norm", s.init.scheme = "zero_last";
  EXPECT_EQ(test::error_text([&] { check_spec(s, Components{}); }),
            "weight_param = 'weight_norm': init.scheme = 'zero_last' starts matrices at zero, which have no "
            "direction; choose "
            "another");
}

// The constants that multiply activations, by quadrature in another implementation.
TEST(ScaledWs, ActivationConstants) {
  const auto weight = choose(weight_table(), "weight_param", "scaled_ws", DecoderSpec{}).make<double>({});
  const Entry& e = reference("nf_activation_constants");
  EXPECT_NEAR(weight->activation_gain("relu"), e.out("inv_std.relu").scalar(), 1e-9);
  EXPECT_NEAR(weight->activation_gain("gelu"), e.out("inv_std.gelu_erf").scalar(), 1e-9);
}

}  // namespace
}  // namespace plumb
