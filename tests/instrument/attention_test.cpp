// Attention against softmax and divergence written out, and heads whose weights say where they look.
#include <cmath>

#include "tests/instrument/looked_at.h"

namespace plumb::test {
namespace {

using Rows = std::vector<std::vector<double>>;

// The weights of a head, from its queries and keys; no position code that turns or biases, no window.
Rows softmax_rows(const Seen& s, const Patient& p, std::int64_t layer, std::int64_t head, double* largest) {
  const std::string attn = block_point(layer, ".attn");
  const Grid<float>&q = *s.find(attn + ".q"), &k = *s.find(attn + ".k");
  const std::int64_t t = p.block(), d = p.spec.d_head;
  Rows rows;
  *largest = -HUGE_VAL;
  for (std::int64_t r = 0; r < q.rows; ++r) {
    std::vector<double> w;
    double sum = 0;
    for (std::int64_t j = r / t * t; j <= r; ++j) {
      double dot = 0;
      for (std::int64_t c = head * d; c < (head + 1) * d; ++c)
        dot += static_cast<double>(row_of(q, r)[static_cast<std::size_t>(c)]) *
               static_cast<double>(row_of(k, j)[static_cast<std::size_t>(c)]);
      dot /= std::sqrt(static_cast<double>(d));
      *largest = std::max(*largest, dot);
      w.push_back(std::exp(dot));
      sum += w.back();
    }
    for (double& x : w) x /= sum;
    rows.push_back(w);
  }
  return rows;
}

// KL(p || (p + q) / 2) + KL(q || (p + q) / 2), halved.
double jensen_shannon(const std::vector<double>& p, const std::vector<double>& q) {
  double sum = 0;
  for (std::size_t j = 0; j < p.size(); ++j) {
    const double m = (p[j] + q[j]) / 2;
    if (p[j] > 0) sum += p[j] * std::log(p[j] / m) / 2;
    if (q[j] > 0) sum += q[j] * std::log(q[j] / m) / 2;
  }
  return sum;
}

TEST(AttentionInstrument, HasTheNumbersOfAPlainSoftmax) {
  const auto p = looked_at({"init.std=0.3"});
  const Json j = reading("attention", *p).json;
  const Seen s = p->pass(Mode::eval);
  for (std::int64_t layer = 0; layer < 2; ++layer) {
    const Json& block = item(j, "layers", static_cast<std::size_t>(layer));
    std::vector<Rows> heads;
    for (std::int64_t h = 0; h < 4; ++h) {
      double largest = 0, self = 0, first = 0, previous = 0, entropy = 0, n = 0;
      heads.push_back(softmax_rows(s, *p, layer, h, &largest));
      for (const auto& w : heads.back()) {
        if (w.size() < 2) continue;
        n += 1, self += w.back(), first += w.front(), previous += w[w.size() - 2];
        double nats = 0;
        for (const double x : w) nats -= x * std::log(x);
        entropy += nats / std::log(static_cast<double>(w.size()));
      }
      const Json& head = item(block, "heads", static_cast<std::size_t>(h));
      EXPECT_NEAR(number(head, "self"), self / n, 1e-5);
      EXPECT_NEAR(number(head, "first"), first / n, 1e-5);
      EXPECT_NEAR(number(head, "previous"), previous / n, 1e-5);
      EXPECT_NEAR(number(head, "entropy"), entropy / n, 1e-5);
      EXPECT_NEAR(number(head, "max_logit"), largest, 1e-4);
    }
    double sum = 0, least = HUGE_VAL;
    for (std::size_t a = 0; a < 4; ++a)
      for (std::size_t b = a + 1; b < 4; ++b) {
        double pair = 0, n = 0;
        for (std::size_t r = 0; r < heads[a].size(); ++r)
          if (heads[a][r].size() > 1) pair += jensen_shannon(heads[a][r], heads[b][r]), n += 1;
        sum += pair / n / 6;
        least = std::min(least, pair / n);
      }
    EXPECT_NEAR(number(block, "divergence"), sum, 1e-5);
    EXPECT_NEAR(number(block.at("most_alike", "a block"), "divergence"), least, 1e-5);
    EXPECT_GT(least, 1e-3);  // else the comparison says nothing
  }
}

TEST(AttentionInstrument, WithoutQueriesAttentionIsUniform) {
  for (const std::int64_t window : {0, 4}) {
    const auto p = looked_at({fmt::format("model.attention.window={}", window)});
    for (std::int64_t layer = 0; layer < 2; ++layer)
      fill(p->store.param(block_point(layer, ".attn.q.weight")), 0);
    double self = 0, first = 0;
    for (int i = 1; i < 16; ++i) {
      const int visible = window > 0 ? std::min<int>(i + 1, 4) : i + 1;
      self += 1.0 / visible / 15;
      if (visible == i + 1) first += 1.0 / visible / 15;
    }
    const Json j = reading("attention", *p).json;
    for (std::size_t layer = 0; layer < 2; ++layer) {
      const Json& block = item(j, "layers", layer);
      EXPECT_NEAR(number(block, "divergence"), 0, 1e-7);
      EXPECT_NEAR(number(block.at("uniform", "a block"), "self"), self, 1e-12);
      EXPECT_NEAR(number(block.at("uniform", "a block"), "first"), first, 1e-12);
      for (std::size_t h = 0; h < 4; ++h) {
        const Json& head = item(block, "heads", h);
        EXPECT_NEAR(number(head, "entropy"), 1, 1e-6);
        EXPECT_NEAR(number(head, "self"), self, 1e-6);
        EXPECT_NEAR(number(head, "previous"), self, 1e-6);
        EXPECT_NEAR(number(head, "first"), first, 1e-6);
        EXPECT_EQ(number(head, "max_logit"), 0);
        EXPECT_EQ(word(head, "kind"), "broad");
      }
    }
  }
}

// Of what position t says, all that is left is that number t of the stream's first sixteen is large. A head
// then looks at the token before when its number r is x_{r+1} in queries and x_r in keys.
TEST(AttentionInstrument, NamesHeadsForWhereTheyLook) {
  const auto p = looked_at({"model.d_head=16"});
  fill(p->store.param("embed.weight"), 0);
  const View<float> position = p->store.param("pos.weight"), q = p->store.param("blocks.0.attn.q.weight"),
                    k = p->store.param("blocks.0.attn.k.weight");
  for (const View<float> v : {position, q, k}) fill(v, 0);
  for (std::int64_t t = 0; t < 16; ++t) position.row(t)[t] = 1;
  for (std::int64_t r = 0; r < 16; ++r) {
    if (r < 15) q.row(r)[r + 1] = 4;
    k.row(r)[r] = 4;
    q.row(16 + r)[r] = k.row(16 + r)[r] = 4;
  }
  // Head 2: every query has the same number (the last sixteen stand below the mean), only the first key a
  // large one.
  for (std::int64_t c = 16; c < 32; ++c) q.row(32)[c] = -4;
  k.row(32)[0] = 4;
  const Json j = reading("attention", *p, {.layer = 0}).json;
  ASSERT_EQ(j.at("layers", "it").size(), 1U);
  const Json& block = item(j, "layers", 0);
  const std::string kinds[] = {"previous", "self", "first", "broad"};
  for (std::size_t h = 0; h < 4; ++h) {
    const Json& head = item(block, "heads", h);
    EXPECT_EQ(word(head, "kind"), kinds[h]);
    if (h < 3) {
      EXPECT_GT(number(head, kinds[h]), 0.95) << h;
    }
  }
  // Rows that share no key are ln 2 apart, but at position 1 the first token is the one before.
  EXPECT_GT(number(block, "divergence"), 0.3);
  EXPECT_LT(number(block, "divergence"), std::log(2));
}

TEST(AttentionInstrument, LeavesPaddingOut) {
  const auto p = looked_at({"data.rows=padded", "model.block_size=64", "model.n_head=1"});
  fill(p->store.param("blocks.0.attn.q.weight"), 0);
  double self = 0, n = 0;
  for (std::size_t r = 0; r < p->y.size(); ++r)
    if (r % 64 > 0 && p->y[r] != p->spec.ignore_index) self += 1.0 / static_cast<double>(r % 64 + 1), n += 1;
  ASSERT_LT(n, 63 * static_cast<double>(p->sequences()));
  const Json j = reading("attention", *p, {.layer = 0}).json;
  EXPECT_NEAR(number(item(item(j, "layers", 0), "heads", 0), "self"), self / n, 1e-6);
  EXPECT_TRUE(item(j, "layers", 0).at("divergence", "it").is_null());  // of one head
}

TEST(AttentionInstrument, ShowsWhatIsNotFinite) {
  const auto p = looked_at();
  p->store.param("blocks.0.attn.q.weight").row(0)[0] = NAN;  // of head 0
  const Json j = reading("attention", *p, {.layer = 0}).json;
  const Json& block = item(j, "layers", 0);
  for (const char* what : {"self", "first", "previous", "entropy", "max_logit"}) {
    EXPECT_TRUE(std::isnan(number(item(block, "heads", 0), what))) << what;
    EXPECT_FALSE(std::isnan(number(item(block, "heads", 1), what))) << what;
  }
  EXPECT_TRUE(std::isnan(number(block, "divergence")));
}

TEST(AttentionInstrument, StopsWhenAsked) { expect_interruptible("attention"); }

}  // namespace
}  // namespace plumb::test
