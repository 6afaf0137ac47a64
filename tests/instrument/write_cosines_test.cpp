// The stream's variance from its writes.
#include <cmath>

#include "tests/instrument/rig.h"

namespace plumb::test {
namespace {

double std_of(const std::vector<double>& x) {
  double mean = 0, squares = 0;
  for (const double v : x) mean += v / static_cast<double>(x.size());
  for (const double v : x) squares += (v - mean) * (v - mean) / static_cast<double>(x.size());
  return std::sqrt(squares);
}
std::vector<double> values(const Seen& s, std::string_view point) {
  const Grid<float>& g = *s.find(point);
  return {g.data.begin(), g.data.end()};
}

// Var(Σ) = ΣΣ Cov: behind every sub-layer.
TEST(WriteCosines, CovariancesGiveTheMeasuredStd) {
  for (const char* residual : {"add", "layer_scale", "depth_scale", "nf"}) {
    std::vector<std::string> set{std::string("model.residual=") + residual};
    if (set[0].ends_with("depth_scale")) set.emplace_back("init.residual_scale=false");
    OnSmall s(set);
    const Json r = s.read("write_cosines");
    const Seen seen = s.p.pass(Mode::eval);
    const char* behind[] = {"blocks.0.mid", "blocks.0.out", "blocks.1.mid", "blocks.1.out"};
    ASSERT_EQ(list(r, "rows").size(), 4u);
    for (std::size_t i = 0; i < 4; ++i) {
      const double want = std_of(values(seen, behind[i]));
      EXPECT_NEAR(number(list(r, "rows")[i], "predicted"), want, 1e-5 * want) << residual << i;
      EXPECT_NEAR(number(list(r, "rows")[i], "stream_std"), want, 1e-5 * want) << residual << i;
    }
  }
}

// The same from a plain loop: one cosine, and the law without covariances.
TEST(WriteCosines, AgainstALoop) {
  OnSmall s;
  const Json r = s.read("write_cosines");
  const Seen seen = s.p.pass(Mode::eval);
  const auto a = values(seen, "blocks.0.ffn.write"), b = values(seen, "blocks.1.attn.write");
  const std::size_t d = 32, rows = a.size() / d;
  double mean = 0;
  for (std::size_t i = 0; i < rows; ++i) {
    double ab = 0, aa = 0, bb = 0;
    for (std::size_t j = i * d; j < (i + 1) * d; ++j) ab += a[j] * b[j], aa += a[j] * a[j], bb += b[j] * b[j];
    mean += ab / std::sqrt(aa * bb) / static_cast<double>(rows);
  }
  EXPECT_NEAR(list(r, "cosines")[2].as_array("row")[1].as_double("cosine"), mean, 1e-9);
  EXPECT_NEAR(list(r, "cosines")[1].as_array("row")[2].as_double("cosine"), mean, 1e-9);
  EXPECT_NEAR(number(r, "chance"), 1 / std::sqrt(32.0), 1e-12);
  const double v0 = std::pow(std_of(values(seen, "blocks.0.in")), 2),
               first = std::pow(std_of(values(seen, "blocks.0.attn.write")), 2),
               second = std::pow(std_of(a), 2), third = std::pow(std_of(b), 2);
  EXPECT_NEAR(number(list(r, "rows")[2], "variances_alone"), std::sqrt(v0 + first + second + third), 1e-6);
  EXPECT_NEAR(number(list(r, "rows")[2], "equal_writes"), std::sqrt(v0 + 3 * (first + second) / 2), 1e-6);
}

// Behind a LayerNorm with a gain of 3 every row has a std of 3 over its channels.
TEST(WriteCosines, BehindANormItIsTheGain) {
  OnSmall s({"model.placement=post"});
  for (float& g : s.p.store.values().subspan(
           static_cast<std::size_t>(s.p.store.layout().find("blocks.1.ffn.norm.gamma").offset), 32))
    g = 3;
  const Json r = s.read("write_cosines");
  EXPECT_EQ(r.at("law", "reading").as_string("law"), "norm");
  EXPECT_NEAR(number(list(r, "rows")[3], "predicted"), 3, 1e-6);
  EXPECT_NEAR(number(list(r, "rows")[3], "stream_std"), 3, 0.01);
}

// What the norm reads is x + f, or alpha x + f with alpha = (2 * 2 layers)^(1/4), element by element; without
// covariance its variance is alpha^2 var(x) + var(f).
TEST(WriteCosines, BeforeANormItIsTheSkipAndTheWrite) {
  for (const char* residual : {"add", "deepnorm"}) {
    OnSmall s({"model.placement=post", std::string("model.residual=") + residual});
    const double alpha = residual == std::string("add") ? 1 : std::pow(4.0, 0.25);
    const Json r = s.read("write_cosines");
    const Seen seen = s.p.pass(Mode::eval);
    const char* subs[] = {"blocks.0.attn", "blocks.0.ffn", "blocks.1.attn", "blocks.1.ffn"};
    for (std::size_t i = 0; i < 4; ++i) {
      const std::string at = subs[i];
      const auto x = values(seen, at + ".skip"), f = values(seen, at + ".write");
      std::vector<double> sum;
      for (std::size_t j = 0; j < x.size(); ++j) sum.push_back(alpha * x[j] + f[j]);
      const Json& row = list(r, "rows")[i];
      EXPECT_NEAR(number(row, "skip_factor"), alpha, 1e-5) << at;
      EXPECT_NEAR(number(row, "sum_std"), std_of(sum), 1e-5 * std_of(sum)) << at;
      const double law = std::sqrt(alpha * alpha * std_of(x) * std_of(x) + std_of(f) * std_of(f));
      EXPECT_NEAR(number(row, "sum_predicted"), law, 1e-5 * law) << at;
    }
  }
}

// The variance of a mean of independent cosines is that of one over their number; one has 1/32.
TEST(WriteCosines, TheMeanHasItsOwnChance) {
  OnSmall s;
  EXPECT_NEAR(number(s.read("write_cosines"), "chance_of_mean"),
              1 / std::sqrt(32 * static_cast<double>(s.p.rows())), 1e-12);
}

// A gate before the norm: what is read is not the skip and the write, and no law is said.
TEST(WriteCosines, AGatedSumHasNoLaw) {
  OnSmall s({"model.placement=post", "model.residual=layer_scale"});
  const Json r = s.read("write_cosines");
  EXPECT_FALSE(std::isfinite(number(list(r, "rows")[1], "sum_predicted")));
}

TEST(WriteCosines, AllRules) {
  for (const ResidualEntry& e : residual_table()) {
    std::vector<std::string> set{"model.residual=" + std::string(e.name)};
    if (e.name == "deepnorm") set.emplace_back("model.placement=post");
    if (e.name == "depth_scale") set.emplace_back("init.residual_scale=false");
    EXPECT_EQ(list(OnSmall(set).read("write_cosines"), "rows").size(), 4u) << e.name;
  }
  const Json parallel = OnSmall({"model.placement=parallel"}).read("write_cosines");
  EXPECT_NEAR(number(list(parallel, "rows")[3], "predicted"), number(list(parallel, "rows")[3], "stream_std"),
              1e-5);
}

}  // namespace
}  // namespace plumb::test
