// Neurons whose keys and values are planted; counts and cosines against plain loops.
#include <cmath>

#include "tests/instrument/looked_at.h"

namespace plumb::test {
namespace {

std::vector<double> dots(View<const float> rows, const std::vector<double>& v) {
  std::vector<double> all;
  for (std::int64_t i = 0; i < rows.rows; ++i) {
    double dot = 0;
    for (std::int64_t c = 0; c < rows.cols; ++c)
      dot += static_cast<double>(rows.row(i)[c]) * v[static_cast<std::size_t>(c)];
    all.push_back(dot);
  }
  return all;
}

const Json& neuron(const Json& block, std::int64_t slot) {
  for (const Json& n : block.at("neurons", "a block").as_array("neurons"))
    if (n.at("neuron", "it").as_int("it") == slot) return n;
  throw std::runtime_error("the neuron is not listed");
}

// What the feed-forward layer of block 0 reads is made the token's own vector, normalised: nothing else is
// added before it.
std::vector<double> alone(Patient& p, std::int32_t token) {
  fill(p.store.param("pos.weight"), 0);
  fill(p.store.param("blocks.0.attn.o.weight"), 0);
  const View<float> embed = p.store.param("embed.weight");
  double mean = 0, var = 0;
  for (std::int64_t c = 0; c < embed.cols; ++c) mean += static_cast<double>(embed.row(token)[c]) / 32;
  for (std::int64_t c = 0; c < embed.cols; ++c)
    var += std::pow(static_cast<double>(embed.row(token)[c]) - mean, 2) / 32;
  std::vector<double> x;
  for (std::int64_t c = 0; c < embed.cols; ++c)
    x.push_back((static_cast<double>(embed.row(token)[c]) - mean) / std::sqrt(var));
  return x;
}

void set_row(View<float> w, std::int64_t row, const std::vector<double>& x, double times) {
  for (std::int64_t c = 0; c < w.cols; ++c)
    w.row(row)[c] = static_cast<float>(times * x[static_cast<std::size_t>(c)]);
}

TEST(Neurons, FindThePlantedOne) {
  const auto p = looked_at({"model.ffn.kind=relu", "init.std=0.3"});
  const std::int32_t token = p->feed.tokenizer().encode(U"m").front();
  set_row(p->store.param("blocks.0.ffn.in.weight"), 5, alone(*p, token), 1);  // 32 on "m", less elsewhere
  p->store.param("blocks.0.ffn.in.bias").row(0)[5] = -16;
  const View<float> out = p->store.param("blocks.0.ffn.out.weight");
  std::vector<double> value;
  for (std::int64_t c = 0; c < 32; ++c) {
    out.row(c)[5] *= 10;
    value.push_back(static_cast<double>(out.row(c)[5]));
  }
  const Json j = reading("neurons", *p, {.layer = 0, .top = 64}).json;
  const Json& n = neuron(item(j, "layers", 0), 5);
  EXPECT_EQ(word(n.at("rule", "it"), "words"), "on 'm'");
  EXPECT_EQ(number(n.at("rule", "it"), "precision"), 1);
  EXPECT_EQ(number(n.at("rule", "it"), "recall"), 1);
  EXPECT_EQ(word(item(n, "tokens", 0), "token"), "m");
  EXPECT_NEAR(number(item(n, "tokens", 0), "mean"), 16, 0.1);  // the norm's eps is the rest
  EXPECT_TRUE(word(item(n, "contexts", 0), "text").ends_with("m"));
  const auto logits = dots(p->store.param("embed.weight"), value);
  const auto best = static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin());
  EXPECT_EQ(word(item(n, "promotes", 0), "token"), p->feed.tokenizer().decode({&best, 1}));
  EXPECT_NEAR(number(item(n, "promotes", 0), "logit"), logits[static_cast<std::size_t>(best)], 1e-4);
}

// The gate opens on "m", and what passes is below 0 there.
TEST(Neurons, LookAtTheSideThatIsUsed) {
  const auto p = looked_at({"model.ffn.kind=swiglu", "init.std=0.3"});
  const std::int32_t token = p->feed.tokenizer().encode(U"m").front();
  const auto x = alone(*p, token);
  set_row(p->store.param("blocks.0.ffn.gate.weight"), 5, x, 1);
  set_row(p->store.param("blocks.0.ffn.in.weight"), 5, x, -1);
  const View<float> out = p->store.param("blocks.0.ffn.out.weight");
  std::vector<double> value;
  for (std::int64_t c = 0; c < 32; ++c) value.push_back(-static_cast<double>(out.row(c)[5]));
  const Json j = reading("neurons", *p, {.layer = 0, .top = p->spec.d_ff}).json;
  const Json& n = neuron(item(j, "layers", 0), 5);
  EXPECT_EQ(number(n, "sign"), -1);
  EXPECT_EQ(word(n.at("rule", "it"), "words"), "on 'm'");
  EXPECT_NEAR(number(item(n, "tokens", 0), "mean"), -32 * 32, 20);
  const auto logits = dots(p->store.param("embed.weight"), value);
  const auto best = static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin());
  EXPECT_EQ(word(item(n, "promotes", 0), "token"), p->feed.tokenizer().decode({&best, 1}));
}

TEST(Neurons, CountWhatIsUsed) {
  const auto p = looked_at({"init.std=0.1"});
  const View<float> in = p->store.param("blocks.1.ffn.in.weight"),
                    bias = p->store.param("blocks.1.ffn.in.bias");
  for (const std::int64_t slot : {3, 7}) bias.row(0)[slot] = -100;  // never
  for (std::int64_t c = 0; c < 32; ++c) in.row(9)[c] = 0, in.row(11)[c] = 2 * in.row(10)[c];
  bias.row(0)[9] = 0.05F;  // always, and small
  const Json j = reading("neurons", *p).json;
  const Json& block = item(j, "layers", 1);
  EXPECT_EQ(number(block, "slots"), 64);

  double positive = 0, n = 0;
  std::vector<std::int64_t> above(64), large(64);
  std::vector<std::int32_t> x(p->x.size()), y(x.size());
  for (std::int64_t k = 0; n < number(block, "positions"); ++k) {
    p->feed.fill(p->step + k, 0, x, y);
    const Seen s = p->pass(Mode::eval, x, {}, p->step + k);
    const Grid<float>&pre = *s.find("blocks.1.ffn.pre"), &act = *s.find("blocks.1.ffn.act");
    n += static_cast<double>(pre.rows);
    for (std::int64_t r = 0; r < pre.rows; ++r)
      for (std::size_t i = 0; i < 64; ++i) {
        positive += row_of(pre, r)[i] > 0;
        above[i] += row_of(pre, r)[i] > 0, large[i] += std::abs(row_of(act, r)[i]) > 0.1F;
      }
  }
  EXPECT_EQ(n, number(block, "positions"));
  EXPECT_GE(n, 4096);
  EXPECT_DOUBLE_EQ(number(block, "active"), positive / n / 64);
  EXPECT_EQ(number(block, "never_positive"), std::ranges::count(above, 0));
  EXPECT_EQ(number(block, "never_above_0.1"), std::ranges::count(large, 0));
  EXPECT_GE(std::ranges::count(above, 0), 2);
  EXPECT_GE(std::ranges::count(large, 0), 3);

  double sum = 0, most = -1, pairs = 0, near = 0;
  for (std::int64_t a = 0; a < 64; ++a)
    for (std::int64_t b = 0; b < a; ++b) {
      double dot = 0, aa = 0, bb = 0;
      for (std::int64_t c = 0; c < 32; ++c) {
        const auto u = static_cast<double>(in.row(a)[c]), v = static_cast<double>(in.row(b)[c]);
        dot += u * v, aa += u * u, bb += v * v;
      }
      const double cosine = aa > 0 && bb > 0 ? dot / std::sqrt(aa * bb) : 0;
      sum += cosine, pairs += 1, near += cosine > 0.95, most = std::max(most, cosine);
    }
  const Json& keys = block.at("key_cosine", "it");
  EXPECT_EQ(near, 1);
  EXPECT_EQ(number(keys, "near_duplicates"), near);
  EXPECT_NEAR(number(keys, "max"), most, 1e-5);
  EXPECT_NEAR(number(keys, "mean"), sum / pairs, 1e-4);
  EXPECT_NEAR(number(keys.at("random", "it"), "std"), 0.17678, 1e-5);  // 1 / sqrt(32)
  EXPECT_NEAR(number(keys.at("random", "it"), "max"), 0.68960, 1e-5);  // sqrt(2 ln(2016) / 32)
}

TEST(Neurons, SayWhereThereAreNone) {
  const auto p = looked_at({"model.ffn.kind=moe"});
  const Reading r = reading("neurons", *p);
  EXPECT_NE(word(item(r.json, "layers", 0), "nothing").find("moe"), std::string::npos);
  EXPECT_EQ(number(item(r.json, "layers", 0), "slots"), 0);
  EXPECT_NE(r.text.find("block 1: "), std::string::npos);
}

TEST(Neurons, ListAsManyAsAsked) {
  const auto p = looked_at();
  for (const std::int64_t top : {0, 2}) {
    const Json j = reading("neurons", *p, {.top = top}).json;
    EXPECT_EQ(item(j, "layers", 1).at("neurons", "it").size(), static_cast<std::size_t>(2 * top));
  }
}

TEST(Neurons, RefuseWhatIsNotFinite) {
  const auto p = looked_at();
  p->store.param("blocks.0.ffn.in.weight").row(3)[0] = NAN;
  EXPECT_NE(error_text([&] { reading("neurons", *p, {.layer = 0}); }).find("blocks.0.ffn.pre"),
            std::string::npos);
}

TEST(Neurons, StopWhenAsked) { expect_interruptible("neurons"); }

}  // namespace
}  // namespace plumb::test
