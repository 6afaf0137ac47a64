// A gradient is the sum of the gradients of all its paths.
#include <cmath>

#include "plumb/base/error.h"
#include "plumb/study/path_plan.h"
#include "tests/instrument/rig.h"

namespace plumb::test {
namespace {

double norm(const std::vector<double>& v) {
  double sum = 0;
  for (const double x : v) sum += x * x;
  return std::sqrt(sum);
}

// Relative to the whole: the sum over all sets, minus the whole.
double missing(Patient& p) {
  PathPlan plan(p);
  const Grid<float> whole = plan.whole();
  std::vector<double> rest(whole.data.begin(), whole.data.end());
  const double size = norm(rest);
  for (unsigned set = 0; set < 1u << plan.branches(); ++set) {
    std::vector<bool> through;
    for (int i = 0; i < plan.branches(); ++i) through.push_back(set >> i & 1);
    const Grid<float> g = plan.gradient(through);
    for (std::size_t i = 0; i < rest.size(); ++i) rest[i] -= static_cast<double>(g.data[i]);
  }
  return norm(rest) / size;
}

class EveryResidual : public testing::TestWithParam<std::vector<std::string>> {};

// 1e-5: some hundred roundings of single precision.
TEST_P(EveryResidual, PathsSumToTheGradient) {
  OnSmall s(GetParam());
  EXPECT_LT(missing(s.p), 1e-5);
}
INSTANTIATE_TEST_SUITE_P(
    PathLength, EveryResidual,
    testing::Values(std::vector<std::string>{}, std::vector<std::string>{"model.placement=post"},
                    std::vector<std::string>{"model.placement=parallel"},
                    std::vector<std::string>{"model.placement=post", "model.residual=deepnorm"},
                    std::vector<std::string>{"model.residual=hyper_connections"},
                    std::vector<std::string>{"model.residual=layer_scale"},
                    std::vector<std::string>{"model.residual=none"},
                    std::vector<std::string>{"model.ffn.kind=moe"}));

// The slope of the loss along the gradient is its norm: central difference over a step in the first block's input.
TEST(PathLength, WithEveryWayOpenItIsTheGradientOfTheLoss) {
  OnSmall s;
  const Grid<float> g = PathPlan(s.p).whole();
  const double size = norm({g.data.begin(), g.data.end()}), step = 0.01;
  const auto loss = [&](double by) {
    return s.p
        .pass(Mode::train,
              [&](std::string_view point, View<float> v, std::int64_t first) {
                if (point != "blocks.0.in") return;
                for (std::int64_t i = 0; i < v.rows; ++i)
                  for (std::int64_t j = 0; j < v.cols; ++j)
                    v.row(i)[j] += static_cast<float>(by / size) *
                                   g.data[static_cast<std::size_t>((first + i) * v.cols + j)];
              })
        .loss.loss;
  };
  EXPECT_NEAR((loss(step) - loss(-step)) / (2 * step), size, 0.01 * size);
}

// Of 2^4 paths 1, 4, 6, 4, 1 have the lengths 0 to 4; up to 4 of a length are looked at.
TEST(PathLength, LengthsAreBinomial) {
  OnSmall s;
  const Json r = s.read("path_length");
  const auto& lengths = list(r, "lengths");
  ASSERT_EQ(lengths.size(), 5u);
  const double paths[] = {1, 4, 6, 4, 1}, looked_at[] = {1, 4, 4, 4, 1};
  double sum = 0, weighted = 0, mean = 0;
  for (std::size_t k = 0; k < 5; ++k) {
    EXPECT_NEAR(number(lengths[k], "of_paths"), paths[k] / 16, 1e-12);
    EXPECT_EQ(number(lengths[k], "sampled"), looked_at[k]);
    weighted += paths[k] * number(lengths[k], "grad_norm");
    mean += static_cast<double>(k) * paths[k] * number(lengths[k], "grad_norm");
    sum += number(lengths[k], "share");
  }
  EXPECT_NEAR(sum, 1, 1e-12);
  EXPECT_NEAR(number(r, "mean_length"), mean / weighted, 1e-9);
  EXPECT_EQ(number(r, "binomial_mean"), 2);
  EXPECT_EQ(number(r, "binomial_std"), 1);
}

TEST(PathLength, WithoutASkipThereIsOnePath) {
  OnSmall s({"model.residual=none"});
  EXPECT_EQ(number(s.read("path_length"), "mean_length"), 4);
}

TEST(PathLength, StopsWhenAsked) {
  OnSmall s;
  EXPECT_THROW(s.read("path_length", {.interrupted = [] { return true; }}), Error);
}

}  // namespace
}  // namespace plumb::test
