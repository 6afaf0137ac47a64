// The norms of the table as they stand in a graph, against PyTorch's vectors and against derivations.
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
using test::row_tensor;
using test::rows_of;
using test::Tensor;
using test::What;

template <class R>
class NormsReference : public testing::Test {};
using Reals = testing::Types<float, double>;
TYPED_TEST_SUITE(NormsReference, Reals);

template <class R>
test::Ran<R> run(const DecoderSpec& s, const Matrix<R>& x, std::int64_t sequences, const Matrix<R>& dy,
                 const std::map<std::string, Matrix<R>>& start) {
  const std::vector<NormEntry> table = norm_table();
  const auto norm = choose(table, "norm", s.norm, s).template make<R>(s);
  return test::run_component<R>([&](Builder<R>& b, Value v) { return norm->build(b, v, "norm", 0); }, x,
                                sequences, dy, start);
}

template <class R>
void compare_groups(const std::string& name, const char* norm, std::int64_t groups) {
  const Entry& e = reference(name);
  DecoderSpec s;
  s.norm = norm, s.norm_eps = e.param("eps"), s.norm_groups = groups;
  s.d_model = e.in("x").dim(1);
  const auto ran = run<R>(s, rows_of<R>(e.in("x")), e.in("x").dim(0), rows_of<R>(e.in("dy")),
                          {{"norm.gamma", Matrix<R>(e.in("gamma"))}, {"norm.beta", Matrix<R>(e.in("beta"))}});
  EXPECT_TRUE(matches(ran.y, e, row_tensor(e.out("y")), What::value));
  EXPECT_TRUE(matches(ran.grads.at("x"), e, row_tensor(e.grad("x")), What::gradient));
  EXPECT_TRUE(matches(ran.grads.at("norm.gamma"), e, e.grad("gamma"), What::gradient));
  EXPECT_TRUE(matches(ran.grads.at("norm.beta"), e, e.grad("beta"), What::gradient));
}

TYPED_TEST(NormsReference, Group) {
  for (const std::int64_t groups : {1, 2, 3, 6})
    compare_groups<TypeParam>("groupnorm_G" + std::to_string(groups), "group", groups);
}

TYPED_TEST(NormsReference, Instance) { compare_groups<TypeParam>("instancenorm", "instance", 0); }

TYPED_TEST(NormsReference, DynamicTanh) {
  using R = TypeParam;
  const Entry& e = reference("dyt");
  DecoderSpec s;
  s.norm = "dyt";
  const auto ran = run<R>(s, Matrix<R>(e.in("x")), 1, Matrix<R>(e.in("dy")),
                          {{"norm.gamma", Matrix<R>(e.in("gamma"))},
                           {"norm.beta", Matrix<R>(e.in("beta"))},
                           {"norm.alpha", Matrix<R>(e.in("alpha"))}});
  EXPECT_TRUE(matches(ran.y, e, e.out("y"), What::value));
  EXPECT_TRUE(matches(ran.grads.at("x"), e, e.grad("x"), What::gradient));
  EXPECT_TRUE(matches(ran.grads.at("norm.gamma"), e, e.grad("gamma"), What::gradient));
  EXPECT_TRUE(matches(ran.grads.at("norm.beta"), e, e.grad("beta"), What::gradient));
  EXPECT_TRUE(matches(ran.grads.at("norm.alpha"), e, e.grad("alpha"), What::gradient));
}

TYPED_TEST(NormsReference, GemmasGainIsOnePlusW) {
  using R = TypeParam;
  const Entry& e = reference("rmsnorm_gemma");
  DecoderSpec s;
  s.norm = "rms", s.norm_gain = "plus_one", s.norm_eps = e.param("eps");
  const auto ran =
      run<R>(s, Matrix<R>(e.in("x")), 1, Matrix<R>(e.in("dy")), {{"norm.w", Matrix<R>(e.in("weight"))}});
  EXPECT_TRUE(matches(ran.y, e, e.out("y"), What::value));
  EXPECT_TRUE(matches(ran.grads.at("x"), e, e.grad("x"), What::gradient));
  EXPECT_TRUE(matches(ran.grads.at("norm.w"), e, e.grad("weight"), What::gradient));
}

// Squashing against the C library on a wide range: value, slope (through dx) and both scalars' sums.
TYPED_TEST(NormsReference, SquashingFollowsTheLibrary) {
  using R = TypeParam;
  const double eps = sizeof(R) == 4 ? 6e-7 : 1e-15;
  std::vector<double> numbers;
  for (int i = -400; i <= 400; ++i) numbers.push_back(i * 0.013), numbers.push_back(i * 1e-4);
  numbers.push_back(30), numbers.push_back(-30), numbers.push_back(1e-20);
  const auto n = static_cast<std::int64_t>(numbers.size());
  Matrix<R> x(1, n), dy(1, n, R(1));
  std::ranges::transform(numbers, x.data.begin(), [](double v) { return static_cast<R>(v); });
  for (const char* name : {"dyt", "derf"}) {
    const bool erf = std::string_view(name) == "derf";
    DecoderSpec s;
    s.norm = name, s.norm_affine = false;
    const double alpha = 0.75, shift = erf ? -0.125 : 0;
    std::map<std::string, Matrix<R>> start{{"norm.alpha", Matrix<R>(1, 1, static_cast<R>(alpha))}};
    if (erf) start["norm.shift"] = Matrix<R>(1, 1, static_cast<R>(shift));
    const auto ran = run<R>(s, x, 1, dy, start);
    double by_alpha = 0, by_shift = 0, size = 0;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const auto v = static_cast<double>(x.data[i]);
      const double u = alpha * v + shift, f = erf ? std::erf(u) : std::tanh(u);
      const double slope = erf ? 2 / std::sqrt(std::acos(-1.0)) * std::exp(-u * u) : 1 - f * f;
      EXPECT_NEAR(ran.y.data[i], f, eps * std::max(std::abs(f), 1e-3)) << name << " at " << u;
      EXPECT_NEAR(ran.grads.at("x").data[i], alpha * slope, eps) << name << " at " << u;
      by_alpha += slope * v, by_shift += slope, size += std::abs(slope * v);
    }
    EXPECT_NEAR(ran.grads.at("norm.alpha").data[0], by_alpha, 4 * eps * size);
    if (erf) {
      EXPECT_NEAR(ran.grads.at("norm.shift").data[0], by_shift, 4 * eps * size);
    }
  }
}

// x - 5; the gradient's mean goes: dy = (1, 0, 0, 0) gives (3, -1, -1, -1) / 4.
TYPED_TEST(NormsReference, CenteringTakesTheMeanAlone) {
  using R = TypeParam;
  DecoderSpec s;
  s.norm = "center";
  Matrix<R> x(1, 4), dy(1, 4);
  x.data = {2, 4, 6, 8};
  dy.data = {1, 0, 0, 0};
  const auto ran = run<R>(s, x, 1, dy, {});
  EXPECT_EQ(ran.y.data, (std::vector<R>{-3, -1, 1, 3}));
  EXPECT_EQ(ran.grads.at("x").data, (std::vector<R>{R(0.75), R(-0.25), R(-0.25), R(-0.25)}));
  EXPECT_EQ(ran.grads.at("norm.gamma").data, (std::vector<R>{-3, 0, 0, 0}));
  EXPECT_EQ(ran.grads.at("norm.beta").data, dy.data);
}

TEST(Norms, PoolingOverPositionsIsSaidAndCannotDecode) {
  const Components c;
  for (const NormEntry& e : c.norm) {
    DecoderSpec s;
    s.norm = e.name, s.d_model = 8, s.n_head = s.n_kv_head = 2, s.d_head = 4, s.n_layer = 1;
    const bool pools = e.name == "batch" || e.name == "group" || e.name == "instance";
    EXPECT_EQ(build_decoder<double>(s, c, Mode::train, 4).sees_future(), pools) << e.name;
    EXPECT_EQ(e.pitfalls.find("sees the future") != std::string_view::npos, pools) << e.name;
    if (pools && e.name != "batch") {
      EXPECT_NE(test::error_text([&] {
                  decoder_layout<double>(s, c, 4);
                }).find("cannot decode one position at a time"),
                std::string::npos);
    }
  }
}

TEST(Norms, ChannelsThatDoNotDivideIntoGroupsAreRefused) {
  DecoderSpec s;
  s.norm = "group", s.norm_groups = 7;
  EXPECT_EQ(test::error_text([&] { check_spec(s, Components{}); }),
            "norm = 'group': 128 channels do not divide into 7 groups; change model.norm_groups");
}

}  // namespace
}  // namespace plumb
