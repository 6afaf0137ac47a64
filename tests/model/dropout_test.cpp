// train.dropout in a decoder: where it falls, and where it does not.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "tests/support/decoder_rig.h"

namespace plumb {
namespace {

constexpr double kShare = 0.25;

/// Whole values of the points it is asked for; one shard, so a view is all of it.
struct Keep final : Hook<double> {
  std::map<std::string, std::vector<double>, std::less<>> seen;
  explicit Keep(std::initializer_list<const char*> points) {
    for (const char* p : points) seen[p];
  }
  bool wants(std::string_view p, Dir d) const override { return d == Dir::forward && seen.contains(p); }
  void at(std::string_view p, Dir, View<double> v, int) override {
    auto& to = seen.find(p)->second;
    to.clear();
    for (std::int64_t i = 0; i < v.rows; ++i) to.insert(to.end(), v.row(i), v.row(i) + v.cols);
  }
};

struct Seen {
  Keep keep{"embed",        "blocks.0.attn.skip", "blocks.0.attn.out",  "blocks.0.attn.write",
            "blocks.0.mid", "blocks.0.ffn.out",   "blocks.0.ffn.write", "blocks.0.out"};
  double loss = 0;
  explicit Seen(double dropout, Mode mode = Mode::train, std::int64_t step = 0) {
    DecoderSpec s = test::small_spec(1);
    s.noise = {dropout, 3};
    test::DecoderRig<double> rig(s, {.mode = mode, .batch = 4, .block = 16}, 1, {&keep});
    loss = rig.plan.loss(rig.tokens.x, rig.tokens.y, {step, 4 * step}).loss;
  }
  const std::vector<double>& operator[](const char* point) const { return keep.seen.find(point)->second; }
};

/// Every element of `y` is 0 or that of `x` over 1 - p; the share of zeros is p, within five standard deviations.
void expect_dropped(const std::vector<double>& x, const std::vector<double>& y, const char* what) {
  ASSERT_EQ(x.size(), std::size_t{4 * 16 * 32}) << what;
  ASSERT_EQ(y.size(), x.size()) << what;
  double zeros = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (y[i] == 0)
      ++zeros;
    else
      ASSERT_NEAR(y[i], x[i] / (1 - kShare), 1e-15 + 1e-14 * std::abs(y[i])) << what << " " << i;
  }
  const auto n = static_cast<double>(x.size());
  EXPECT_NEAR(zeros / n, kShare, 5 * std::sqrt(kShare * (1 - kShare) / n)) << what;
}

TEST(Dropout, FallsOnTheEmbeddingAndOnWhatBothBranchesWrite) {
  const Seen with(kShare), without(0);
  expect_dropped(without["embed"], with["embed"], "embed");
  expect_dropped(with["blocks.0.attn.out"], with["blocks.0.attn.write"], "attention");
  expect_dropped(with["blocks.0.ffn.out"], with["blocks.0.ffn.write"], "feed-forward");
  EXPECT_NE(with.loss, without.loss);
  EXPECT_NE(Seen(kShare, Mode::train, 1)["blocks.0.attn.write"], with["blocks.0.attn.write"]);
}

TEST(Dropout, NeverFallsOnTheStream) {
  const Seen with(kShare);
  for (std::size_t i = 0; i < with["embed"].size(); ++i) {
    EXPECT_EQ(with["blocks.0.attn.skip"][i], with["embed"][i]);
    EXPECT_EQ(with["blocks.0.mid"][i], with["blocks.0.attn.skip"][i] + with["blocks.0.attn.write"][i]);
    EXPECT_EQ(with["blocks.0.out"][i], with["blocks.0.mid"][i] + with["blocks.0.ffn.write"][i]);
  }
}

// Of the weights: kernel tests have the numbers; here, that there is such a node in the twin, which conformance compares with the
// tiles.
TEST(Dropout, FallsOnTheWeightsOfAttention) {
  DecoderSpec s = test::small_spec(1);
  const auto has_node = [&](Mode mode) {
    Keep scores{"blocks.0.attn.scores"};
    Hook<double>* hooks[] = {&scores};
    const GraphOf<double> graph = build_decoder<double>(s, Components{}, mode, 16, hooks);
    return std::ranges::any_of(graph.nodes,
                               [](const auto& n) { return n.spec.name == "blocks.0.attn.weights.dropped"; });
  };
  EXPECT_FALSE(has_node(Mode::train));
  s.noise = {kShare, 3};
  EXPECT_TRUE(has_node(Mode::train));
  EXPECT_FALSE(has_node(Mode::eval));
}

TEST(Dropout, IsNotInEvaluation) { EXPECT_EQ(Seen(kShare, Mode::eval).loss, Seen(0, Mode::eval).loss); }

}  // namespace
}  // namespace plumb
