#include "plumb/kernel/attention.h"

#include "plumb/kernel/rows.h"
#include "tests/kernel/guarded.h"

namespace plumb {
namespace {

using test::expect_gradient;
using test::for_each_target;
using test::Guarded;
using test::kEps;
using test::near;
using test::same_bits;

/// A test double of a position code: head-dependent table of distances, -inf beyond `window`. What it does to
/// masked entries must not matter, and their ds must be 0.
template <class R>
struct DistanceBias final : ScoreBias<R> {
  static constexpr std::int64_t kRows = 6;
  std::int64_t window = 1 << 20;

  static std::int64_t row_of(std::int64_t distance) { return std::min(distance, kRows - 1); }
  void add(View<R> s, int head, std::int64_t q0, std::int64_t k0, View<const R> table) const override {
    for (std::int64_t i = 0; i < s.rows; ++i)
      for (std::int64_t j = 0; j < s.cols; ++j) {
        const std::int64_t distance = q0 + i - k0 - j;
        if (distance < 0)
          s.row(i)[j] = R(NAN);
        else
          s.row(i)[j] = distance > window ? R(-INFINITY) : s.row(i)[j] + table.row(row_of(distance))[head];
      }
  }
  void grad(View<const R> ds, int head, std::int64_t q0, std::int64_t k0, View<R> dtable) const override {
    for (std::int64_t i = 0; i < ds.rows; ++i)
      for (std::int64_t j = 0; j < ds.cols; ++j) {
        const std::int64_t distance = q0 + i - k0 - j;
        if (distance < 0)
          EXPECT_EQ(ds.row(i)[j], R(0)) << q0 + i << " " << k0 + j;
        else
          dtable.row(row_of(distance))[head] += ds.row(i)[j];
      }
  }
};

/// One attention problem: q, k and v are columns of one product, as in the decoder.
template <class R>
struct Problem {
  AttentionShape a;
  Guarded<R> qkv, d_qkv, o, d_o, lse, entropy, max_logit, table, d_table, scratch;
  DistanceBias<R> distance;
  bool biased = false, overwrite = true;

  Problem(std::int64_t n_seq, std::int64_t block, std::int64_t heads, std::int64_t kv_heads, std::int64_t d,
          std::int64_t shift = 0)
      : a{n_seq, block, heads, kv_heads, d, 1 / std::sqrt(double(d))},
        qkv(n_seq * block, (heads + 2 * kv_heads) * d, 0, shift),
        d_qkv(n_seq * block, (heads + 2 * kv_heads) * d, 1),
        o(n_seq * block, heads * d, 2, shift),
        d_o(n_seq * block, heads * d, 1),
        lse(n_seq * block, heads, 1),
        entropy(n_seq * block, heads, 1),
        max_logit(n_seq * block, heads),
        table(distance.kRows, heads, 1),
        d_table(distance.kRows, heads),
        scratch(1, std::int64_t(attention_scratch<R>(a)), 0, shift) {
    scratch.fill([](std::int64_t, std::int64_t) { return NAN; });
  }
  void randomise(unsigned seed, double scale) {
    std::mt19937_64 rng(seed);
    qkv.randomise(rng, scale);
    d_o.randomise(rng, 1);
    table.randomise(rng, 1);
    d_qkv.randomise(rng, 1);
    d_table.randomise(rng, 1);
  }
  template <class Q>
  void copy(const Problem<Q>& p) {
    qkv.copy(p.qkv), d_o.copy(p.d_o), table.copy(p.table), d_qkv.copy(p.d_qkv), d_table.copy(p.d_table);
    biased = p.biased, overwrite = p.overwrite, distance.window = p.distance.window;
    a.softcap = p.a.softcap, a.window = p.a.window, a.dropout = p.a.dropout;
  }
  View<R> q(const Guarded<R>& m) const { return m.view().columns(0, a.n_head * a.d_head); }
  View<R> k(const Guarded<R>& m) const {
    return m.view().columns(a.n_head * a.d_head, a.n_kv_head * a.d_head);
  }
  View<R> v(const Guarded<R>& m) const {
    return m.view().columns((a.n_head + a.n_kv_head) * a.d_head, a.n_kv_head * a.d_head);
  }
  const ScoreBias<R>* bias() const { return biased ? &distance : nullptr; }

  void forward(bool plain, bool statistics = true) const {
    const View<R> h = statistics ? entropy.view() : View<R>{}, m = statistics ? max_logit.view() : View<R>{};
    (plain ? plain::attention_forward<R> : attention_forward<R>)(a, q(qkv), k(qkv), v(qkv), bias(),
                                                                 table.view(), o.view(), lse.view(), h, m,
                                                                 scratch.view().data);
  }
  void backward(bool plain) const {
    (plain ? plain::attention_backward<R>
           : attention_backward<R>)(a, q(qkv), k(qkv), v(qkv), bias(), table.view(), o.view(), lse.view(),
                                    d_o.view(), {q(d_qkv), overwrite}, {k(d_qkv), overwrite},
                                    {v(d_qkv), overwrite}, biased ? d_table.view() : View<R>{},
                                    scratch.view().data);
  }
  void run(bool plain) const { forward(plain), backward(plain); }
};

template <class R>
double largest(View<R> x) {
  double m = 0;
  for (std::int64_t i = 0; i < x.rows; ++i)
    for (std::int64_t j = 0; j < x.cols; ++j) m = std::max(m, std::abs(double(x.row(i)[j])));
  return m;
}

TEST(AttentionKernel, PlainBackwardIsTheDerivative) {
  for (const double scale : {0.1, 1.0, 10.0})
    for (const std::int64_t kv : {2, 1}) {
      Problem<double> p(2, 5, 2, kv, 3), work(2, 5, 2, kv, 3);
      p.randomise(7, scale);
      p.biased = true;
      if (kv == 1) p.a.softcap = 2, p.a.window = 3, p.a.dropout = {stream(1, "test"), 0.4, 3, 7};
      p.d_table.fill([](std::int64_t, std::int64_t) { return 0.0; });
      p.run(true);
      work.copy(p);
      const auto loss = [&] {
        work.forward(true, false);
        return plain::dot<double>(work.o.view(), work.d_o.view());
      };
      const double step = 1e-3 / scale;
      expect_gradient(work.qkv, p.d_qkv, std::min(step, 1e-3), loss, "qkv");
      expect_gradient(work.table, p.d_table, 1e-3, loss, "table");
    }
}

/// How far float may be from the twin. A score is off by kEps (4 + sqrt(D)) times the size of its terms, so
/// is the exponent of p; sums over keys add sqrt(T) roundings. Largest elements bound all; a quarter of that
/// is met in practice.
struct Allowed {
  double score, p, o, grad;
  explicit Allowed(const Problem<double>& x) {
    const AttentionShape& a = x.a;
    const double d = double(a.d_head),
                 qk = largest(x.q(x.qkv)) * largest(x.k(x.qkv)) * a.scale * std::sqrt(d);
    const double v = largest(x.v(x.qkv)), g = largest(x.d_o.view()) * v * std::sqrt(d);
    score = kEps * (4 + std::sqrt(d)) * (1 + qk);
    p = score + kEps * std::sqrt(double(a.block));
    o = p * v / 4;
    grad = p * g / 4 * (1 + std::max(largest(x.q(x.qkv)), largest(x.k(x.qkv)))) *
           std::sqrt(double(a.n_head / a.n_kv_head));
  }
};

void expect_twins(const Problem<float>& fast, const Problem<double>& plain) {
  const Allowed allowed(plain);
  EXPECT_TRUE(near(fast.o, plain.o, allowed.o));
  EXPECT_TRUE(near(fast.lse, plain.lse, allowed.score + 4 * kEps));
  EXPECT_TRUE(near(fast.max_logit, plain.max_logit, allowed.score));
  EXPECT_TRUE(near(fast.entropy, plain.entropy, allowed.p));
  EXPECT_TRUE(near(fast.d_qkv, plain.d_qkv, allowed.grad));
  EXPECT_TRUE(near(fast.d_table, plain.d_table, allowed.grad * std::sqrt(double(plain.a.block))));
}

class AttentionSweep : public testing::TestWithParam<std::int64_t> {};
INSTANTIATE_TEST_SUITE_P(Blocks, AttentionSweep, testing::Values(1, 2, 5, 31, 63, 64, 65, 130));

TEST_P(AttentionSweep, FastIsPlain) {
  const std::int64_t block = GetParam();
  for_each_target([&] {
    for (const std::int64_t d : {1, 3, 8, 32, 40, 64})
      for (const std::int64_t kv : {4, 2, 1}) {
        const unsigned seed = unsigned(block * 1000 + d * 10 + kv);
        Problem<float> fast(d < 8 ? 2 : 1, block, 4, kv, d, seed % 3);
        Problem<double> plain(fast.a.n_seq, block, 4, kv, d);
        fast.randomise(seed, 1);
        fast.biased = (d + kv) % 2 == 0;
        fast.overwrite = d % 2 == 1 || kv == 1;
        if (d == 64) fast.distance.window = 40;  // the last queries of 130 see nothing of the first tile
        plain.copy(fast);
        fast.run(false);
        plain.run(true);
        SCOPED_TRACE(testing::Message() << "T " << block << " D " << d << " KV " << kv);
        expect_twins(fast, plain);
      }
  });
}

TEST_P(AttentionSweep, FastIsPlainInAWindowAndUnderACap) {
  const std::int64_t block = GetParam();
  for_each_target([&] {
    for (const std::int64_t window : {1, 2, 7, 63, 64, 65, 100})
      for (const double cap : {0.0, 0.5, 20.0}) {
        Problem<float> fast(2, block, 4, 2, 12, 1);
        Problem<double> plain(2, block, 4, 2, 12);
        fast.randomise(unsigned(block * 1000 + window), 1);
        fast.a.window = window, fast.a.softcap = cap;
        fast.biased = window % 2 == 1;
        fast.overwrite = cap == 0;
        plain.copy(fast);
        fast.run(false);
        plain.run(true);
        SCOPED_TRACE(testing::Message() << "T " << block << " window " << window << " cap " << cap);
        expect_twins(fast, plain);
      }
  });
}

TEST_P(AttentionSweep, FastIsPlainWithDropout) {
  const std::int64_t block = GetParam();
  for_each_target([&] {
    for (const std::int64_t window : {0, 7, 70})
      for (const double share : {0.1, 0.9}) {
        Problem<float> fast(2, block, 4, 2, 12, 1);
        Problem<double> plain(2, block, 4, 2, 12);
        fast.randomise(unsigned(block * 1000 + window), 1);
        fast.a.window = window, fast.a.dropout = {stream(1, "test"), share, 3, 7};
        fast.a.softcap = window == 7 ? 2 : 0, fast.biased = window > 0;
        fast.overwrite = share < 0.5;
        plain.copy(fast);
        fast.run(false);
        plain.run(true);
        // Weights are up to 1 / (1 - p) times as large, and so are their errors.
        const double grown = fast.a.dropout.kept();
        Allowed allowed(plain);
        allowed.o *= grown, allowed.grad *= grown;
        SCOPED_TRACE(testing::Message() << "T " << block << " window " << window << " share " << share);
        EXPECT_TRUE(near(fast.o, plain.o, allowed.o));
        EXPECT_TRUE(near(fast.lse, plain.lse, allowed.score + 4 * kEps));
        EXPECT_TRUE(near(fast.entropy, plain.entropy, allowed.p));
        EXPECT_TRUE(near(fast.d_qkv, plain.d_qkv, allowed.grad));
        EXPECT_TRUE(near(fast.d_table, plain.d_table, allowed.grad * std::sqrt(double(block))));
      }
  });
}

/// o = (F P) V with the factors of a (H T, T) tensor, in which row h T + i is query i of head h.
TEST(AttentionKernel, DropoutsFactorsMultiplyTheWeights) {
  for_each_target([] {
    constexpr std::int64_t kBlock = 70, kHeads = 2;
    Problem<float> p(2, kBlock, kHeads, 1, 4);
    p.randomise(1, 1);
    const View<float> v = p.v(p.qkv), k = p.k(p.qkv);
    for (std::int64_t i = 0; i < k.rows; ++i) {
      std::fill(k.row(i), k.row(i) + k.cols, 0.0f);  // all weights of row i are 1 / (i + 1)
      std::fill(v.row(i), v.row(i) + v.cols, 1.0f);
    }
    p.a.dropout = {stream(1, "test"), 0.3, 3, 7};
    p.run(false);
    for (std::int64_t n = 0; n < 2; ++n)
      for (std::int64_t h = 0; h < kHeads; ++h)
        for (std::int64_t i = 0; i < kBlock; ++i) {
          std::vector<double> f(static_cast<std::size_t>(i + 1));
          plain::dropout_factors<double>(p.a.dropout, n, (h * kBlock + i) * 72,
                                         f);  // 70 in whole blocks of 4
          double sum = 0;
          for (const double factor : f) sum += factor;
          EXPECT_NEAR(p.o.at(n * kBlock + i, h * 4), sum / double(i + 1), 2e-6) << n << " " << h << " " << i;
        }
  });
}

/// A window is what a bias of -inf beyond it would be.
TEST(AttentionKernel, AWindowIsAMask) {
  for_each_target([] {
    for (const std::int64_t window : {3, 64, 70, 130}) {
      Problem<float> cut(1, 130, 2, 1, 16);
      Problem<double> masked(1, 130, 2, 1, 16);
      cut.randomise(5, 1);
      masked.copy(cut);
      cut.a.window = window;
      masked.a.window = 0, masked.biased = true, masked.distance.window = window - 1;
      masked.table.fill([](std::int64_t, std::int64_t) { return 0.0; });
      cut.run(false), masked.run(true);
      const Allowed allowed(masked);
      EXPECT_TRUE(near(cut.o, masked.o, allowed.o)) << window;
      EXPECT_TRUE(near(cut.lse, masked.lse, allowed.score + 4 * kEps)) << window;
      EXPECT_TRUE(near(cut.d_qkv, masked.d_qkv, allowed.grad)) << window;
    }
  });
}

/// No score passes the cap, however large it would be.
TEST(AttentionKernel, ACapBoundsScores) {
  for_each_target([] {
    Problem<float> p(1, 20, 1, 1, 8);
    p.randomise(1, 50);
    p.a.softcap = 30;
    p.run(false);
    EXPECT_LE(largest(p.max_logit.view()), 30);
    EXPECT_GT(largest(p.max_logit.view()), 29);
  });
}

TEST(AttentionKernel, LargeScoresStayFinite) {
  for_each_target([] {
    Problem<float> fast(1, 70, 2, 2, 16);
    Problem<double> plain(1, 70, 2, 2, 16);
    fast.randomise(1, 50);  // scores to 1e4
    plain.copy(fast);
    fast.run(false);
    plain.run(true);
    EXPECT_GT(largest(fast.max_logit.view()), 1e4);
    EXPECT_TRUE(all_finite<float>(fast.o.view()) && all_finite<float>(fast.d_qkv.view()));
    EXPECT_TRUE(near(fast.lse, plain.lse, Allowed(plain).score));
    for (std::int64_t i = 0; i < 70; ++i) EXPECT_GE(fast.entropy.at(i, 0), 0);
  });
}

TEST(AttentionKernel, EntropyOfOneKeyIsZeroAndOfEqualKeysIsItsLogarithm) {
  for_each_target([] {
    Problem<float> p(2, 70, 1, 1, 8);
    p.randomise(1, 1);
    p.forward(false);
    EXPECT_EQ(p.entropy.at(0, 0), 0);
    EXPECT_EQ(p.entropy.at(70, 0), 0);
    const View<float> k = p.k(p.qkv);
    for (std::int64_t i = 0; i < k.rows; ++i) std::fill(k.row(i), k.row(i) + k.cols, 0.5f);
    p.forward(false);
    for (std::int64_t i = 0; i < 70; ++i) EXPECT_NEAR(p.entropy.at(i, 0), std::log(double(i + 1)), 1e-6);
    EXPECT_TRUE(p.entropy.gaps_intact());
  });
}

TEST(AttentionKernel, StatisticsSinksAndAlignmentChangeNoBits) {
  for_each_target([] {
    for (const std::int64_t block : {7, 64, 100}) {
      Problem<float> all(3, block, 2, 1, 20, 0), each(3, block, 2, 1, 20, 1);
      all.randomise(1, 1);
      each.copy(all);
      all.run(false);
      AttentionShape one = all.a;
      one.n_seq = 1;
      for (std::int64_t n = 0; n < 3; ++n) {  // sequence by sequence, one gradient at a time, no statistics
        const auto cut = [&](View<float> x) { return x.slice(n * block, block); };
        const View<float> q = cut(each.q(each.qkv)), k = cut(each.k(each.qkv)), v = cut(each.v(each.qkv));
        float* scratch = each.scratch.view().data;
        attention_forward<float>(one, q, k, v, nullptr, {}, cut(each.o.view()), cut(each.lse.view()), {}, {},
                                 scratch);
        for (int which = 0; which < 3; ++which) {
          const auto sink = [&](int w, View<float> x) {
            return w == which ? Sink<float>{cut(x), true} : Sink<float>{};
          };
          attention_backward<float>(one, q, k, v, nullptr, {}, cut(each.o.view()), cut(each.lse.view()),
                                    cut(each.d_o.view()), sink(0, each.q(each.d_qkv)),
                                    sink(1, each.k(each.d_qkv)), sink(2, each.v(each.d_qkv)), {}, scratch);
        }
      }
      EXPECT_TRUE(same_bits(all.o.view(), each.o.view()));
      EXPECT_TRUE(same_bits(all.lse.view(), each.lse.view()));
      EXPECT_TRUE(same_bits(all.d_qkv.view(), each.d_qkv.view()));
    }
  });
}

/// Which rows of `dirty` have a NaN where `clean` has none, per row of one head's columns; the others must be
/// equal.
std::vector<bool> rows_with_nan(View<float> dirty, View<float> clean) {
  std::vector<bool> out;
  for (std::int64_t i = 0; i < dirty.rows; ++i) {
    out.push_back(!all_finite<float>(dirty.slice(i, 1)));
    if (!out.back()) {
      EXPECT_TRUE(same_bits(dirty.slice(i, 1), clean.slice(i, 1))) << "row " << i;
    }
  }
  return out;
}

/// A NaN at position `at` reaches every position that sees it and no other; the others keep their bits.
void expect_nan_stays(std::int64_t block, std::int64_t window, double cap, char what) {
  const std::int64_t at = block / 2;
  Problem<float> clean(1, block, 1, 1, 12), dirty(1, block, 1, 1, 12);
  clean.randomise(3, 1);
  clean.a.window = window, clean.a.softcap = cap;
  dirty.copy(clean);
  const View<float> target = what == 'q'   ? dirty.q(dirty.qkv)
                             : what == 'k' ? dirty.k(dirty.qkv)
                             : what == 'v' ? dirty.v(dirty.qkv)
                                           : dirty.d_o.view();
  target.row(at)[11] = NAN;
  clean.run(false), dirty.run(false);
  SCOPED_TRACE(testing::Message() << what << " block " << block << " window " << window);
  const auto o = rows_with_nan(dirty.o.view(), clean.o.view());
  const auto lse = rows_with_nan(dirty.lse.view(), clean.lse.view());
  const auto top = rows_with_nan(dirty.max_logit.view(), clean.max_logit.view());
  const auto entropy = rows_with_nan(dirty.entropy.view(), clean.entropy.view());
  const auto dq = rows_with_nan(dirty.q(dirty.d_qkv), clean.q(clean.d_qkv));
  const auto dk = rows_with_nan(dirty.k(dirty.d_qkv), clean.k(clean.d_qkv));
  const auto dv = rows_with_nan(dirty.v(dirty.d_qkv), clean.v(clean.d_qkv));
  const auto sees = [&](std::int64_t i, std::int64_t j) { return j <= i && j >= clean.a.first_key(i); };
  std::vector<bool> seen_by_bad(std::size_t(block), false);
  for (std::int64_t i = 0; i < block; ++i) {
    const auto r = std::size_t(i);
    const bool query_bad = what == 'q' ? i == at : (what == 'k' || what == 'v') && sees(i, at);
    EXPECT_EQ(o[r], query_bad);
    EXPECT_EQ(lse[r], query_bad && what != 'v');
    EXPECT_EQ(top[r], query_bad && what != 'v');
    EXPECT_EQ(entropy[r], query_bad && what != 'v');
    const bool gradient_bad = query_bad || (what == 'g' && i == at);
    EXPECT_EQ(dq[r], gradient_bad);
    for (std::int64_t j = 0; j < block && gradient_bad; ++j)
      if (sees(i, j)) seen_by_bad[std::size_t(j)] = true;
  }
  for (std::int64_t j = 0; j < block; ++j) {
    EXPECT_EQ(dk[std::size_t(j)], seen_by_bad[std::size_t(j)]) << j;
    EXPECT_EQ(dv[std::size_t(j)], what != 'v' && seen_by_bad[std::size_t(j)]) << j;
  }
}

TEST(AttentionKernel, NaNReachesWhatSeesItAndNothingElse) {
  for_each_target([] {
    for (const std::int64_t block : {1, 9, 64, 100})
      for (const char what : {'q', 'k', 'v', 'g'}) {
        for (const std::int64_t window : {0, 3, 70}) expect_nan_stays(block, window, 0, what);
        expect_nan_stays(block, 20, 5, what);
      }
  });
}

TEST(AttentionKernel, InfinityInAScoreIsNotHidden) {
  for_each_target([] {
    Problem<float> p(1, 20, 1, 1, 8);
    p.randomise(1, 1);
    for (std::int64_t c = 0; c < 8; ++c) p.q(p.qkv).row(10)[c] = 1;
    p.k(p.qkv).row(5)[0] = INFINITY;  // a score of +inf for query 10
    p.forward(false);
    EXPECT_TRUE(std::isnan(p.o.at(10, 0)));
    EXPECT_FALSE(std::isfinite(p.lse.at(10, 0)));
    EXPECT_EQ(p.max_logit.at(10, 0), INFINITY);
    EXPECT_TRUE(std::isfinite(p.o.at(4, 0)));
  });
}

TEST(AttentionKernel, ScratchGrowsLinearlyWithTheBlockAndNotWithSequences) {
  const auto scratch = [](std::int64_t n, std::int64_t block) {
    return double(attention_scratch<float>({n, block, 4, 4, 32, 1}));
  };
  EXPECT_EQ(scratch(1, 640), scratch(9, 640));
  EXPECT_LT(scratch(1, 64000), 110 * scratch(1, 640));
}

}  // namespace
}  // namespace plumb
