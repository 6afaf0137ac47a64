// Linear probes on streams whose contents are planted.
#include <cmath>

#include "tests/instrument/looked_at.h"

namespace plumb::test {
namespace {

const Json& point(const Json& j, std::size_t i) { return item(j, "points", i); }
double read(const Json& j, std::string_view task, std::string_view what) {
  return number(j.at(task, "a point"), what);
}

struct Shares {
  double line_end = 0, lower = 0;
};

// Of the validation text's positions that predict something.
Shares shares(const Patient& p) {
  std::vector<std::int32_t> x(p.x.size()), y(x.size());
  double n = 0;
  Shares s;
  for (std::int64_t row = 0; row < p.feed.val_rows(); row += p.sequences()) {
    p.feed.fill_validation(row, x, y);
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (y[i] == p.spec.ignore_index) continue;
      const std::string c = p.feed.tokenizer().decode({&x[i], 1});
      n += 1, s.line_end += c == "\n", s.lower += c[0] >= 'a' && c[0] <= 'z';
    }
  }
  s.line_end /= n, s.lower /= n;
  return s;
}

TEST(LinearProbes, ReadWhatIsThere) {
  const auto p = looked_at();
  const View<float> embed = p->store.param("embed.weight"), position = p->store.param("pos.weight");
  ASSERT_LT(embed.rows, 31);
  fill(embed, 0), fill(position, 0);
  for (std::int64_t token = 0; token < embed.rows; ++token) embed.row(token)[token] = 1;
  for (std::int64_t t = 0; t < 16; ++t) position.row(t)[31] = static_cast<float>(t);
  const Json j = reading("linear_probes", *p).json;
  ASSERT_EQ(j.at("points", "it").size(), 3U);
  const Json& first = point(j, 0);
  EXPECT_EQ(word(first, "point"), "embed");
  EXPECT_EQ(read(first, "line_end", "accuracy"), 1);
  EXPECT_EQ(read(first, "class", "accuracy"), 1);
  EXPECT_EQ(read(first, "class", "by_token"),
            1);  // each token has a number of its own: any map of them is linear
  EXPECT_GT(read(first, "position", "r2"), 0.9999);
  // In another order of positions nothing can be read.
  const Json& always = j.at("majority", "it");
  EXPECT_NEAR(read(first, "line_end", "shuffled"), number(always, "line_end"), 0.02);
  EXPECT_NEAR(read(first, "class", "shuffled"), number(always, "class"), 0.05);
  EXPECT_LT(read(first, "position", "shuffled"), 0.05);
  const Shares s = shares(*p);
  EXPECT_DOUBLE_EQ(number(always, "line_end"), 1 - s.line_end);
  EXPECT_DOUBLE_EQ(number(always, "class"), s.lower);
}

TEST(LinearProbes, DoNotReadWhatIsNotThere) {
  const auto p = looked_at();
  const View<float> embed = p->store.param("embed.weight");
  fill(embed, 1), fill(p->store.param("pos.weight"), 0);
  const Shares s = shares(*p);
  const Json j = reading("linear_probes", *p).json;
  // One vector for every token at every position: all that is left is the most frequent answer.
  EXPECT_DOUBLE_EQ(read(point(j, 0), "line_end", "accuracy"), 1 - s.line_end);
  EXPECT_DOUBLE_EQ(read(point(j, 0), "class", "accuracy"), s.lower);
  EXPECT_NEAR(read(point(j, 0), "position", "r2"), 0, 0.02);
  EXPECT_DOUBLE_EQ(read(point(j, 0), "class", "by_token"), number(j.at("majority", "it"), "class_by_token"));
  // And another for line ends: they are told from the rest, which stays one.
  const std::int32_t end = p->feed.tokenizer().encode(U"\n").front();
  embed.row(end)[3] = 2;
  const Json k = reading("linear_probes", *p).json;
  EXPECT_EQ(read(point(k, 0), "line_end", "accuracy"), 1);
  EXPECT_DOUBLE_EQ(read(point(k, 0), "class", "accuracy"), s.lower + s.line_end);
}

TEST(LinearProbes, LookAtOneBlockAndAtLanes) {
  const auto p = looked_at({"model.residual=hyper_connections", "model.residual_lanes=3"});
  const Json all = reading("linear_probes", *p).json, one = reading("linear_probes", *p, {.layer = 1}).json;
  ASSERT_EQ(one.at("points", "it").size(), 1U);
  EXPECT_EQ(word(point(one, 0), "point"), "blocks.1.out");
  EXPECT_EQ(read(point(one, 0), "class", "accuracy"), read(point(all, 2), "class", "accuracy"));
  EXPECT_GT(read(point(one, 0), "class", "accuracy"), number(one.at("majority", "it"), "class"));
}

TEST(LinearProbes, StopWhenAsked) { expect_interruptible("linear_probes"); }

}  // namespace
}  // namespace plumb::test
