// Losses by position against a loop over the logits.
#include <cmath>

#include "plumb/model/decoder.h"
#include "tests/instrument/rig.h"

namespace plumb::test {
namespace {

// -log softmax of the first batch's logits, by hand; its tokens are a sixteenth of what is measured, so all 16 are summed.
TEST(LossByPosition, AgainstALoopOverLogits) {
  OnSmall s;
  const Json r = s.read("loss_by_position");
  struct Logits final : Hook<float> {
    std::map<int, std::vector<std::vector<float>>> by_shard;
    bool wants(std::string_view point, Dir dir) const override {
      return point == "logits" && dir == Dir::forward;
    }
    void at(std::string_view, Dir, View<float> v, int shard) override {
      by_shard[shard].clear();
      for (std::int64_t i = 0; i < v.rows; ++i) by_shard[shard].emplace_back(v.row(i), v.row(i) + v.cols);
    }
  } seen;
  Hook<float>* hooks[] = {&seen};
  ThreadPool pool(1);
  Plan<float> plan = make_plan<float>(s.p.spec, s.components, s.p.store,
                                      {.mode = Mode::eval, .batch = 8, .block = 16}, pool, hooks);
  std::vector<std::int32_t> x(8 * 16), y(x.size());
  double want[16] = {};
  for (std::int64_t i = 0; i < 16; ++i) {
    s.p.feed.fill(0, i * 8, x, y);
    plan.loss(x, y);
    std::size_t token = 0;
    for (const auto& [shard, rows] : seen.by_shard)
      for (const auto& z : rows) {
        double sum = 0;
        for (const float v : z) sum += std::exp(static_cast<double>(v));
        want[token % 16] +=
            (std::log(sum) - static_cast<double>(z[static_cast<std::size_t>(y[token])])) / (16 * 8);
        ++token;
      }
    ASSERT_EQ(token, x.size());
  }
  double mean = 0;
  for (std::size_t t = 0; t < 16; ++t) {
    EXPECT_NEAR(list(r, "by_position")[t].as_double("loss"), want[t], 1e-5);
    EXPECT_NEAR(number(list(r, "bins")[t], "loss"), want[t], 1e-5);
    mean += want[t] / 16;
  }
  EXPECT_NEAR(number(r, "loss"), mean, 1e-5);
  EXPECT_NEAR(number(r, "gain"), want[0] - want[15], 1e-5);
  EXPECT_EQ(number(r, "tokens"), 16 * 8 * 16);
}

TEST(LossByPosition, AtMostSixteenBins) {
  OnSmall s({"model.block_size=40"});  // bins of 3: 13 of them, and one of what is left
  const Json r = s.read("loss_by_position");
  const auto& bins = list(r, "bins");
  ASSERT_EQ(bins.size(), 14u);
  EXPECT_EQ(number(bins[13], "from"), 39);
  EXPECT_EQ(number(bins[13], "to"), 39);
}

// Rows that are padded have no target at their ends.
TEST(LossByPosition, PaddingDoesNotCount) {
  OnSmall s({"data.rows=padded"});
  const Json r = s.read("loss_by_position");
  EXPECT_LT(number(r, "tokens"), 16 * 8 * 16);
  EXPECT_TRUE(std::isfinite(number(r, "loss")));
}

}  // namespace
}  // namespace plumb::test
