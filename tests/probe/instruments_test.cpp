// The probes of streams, writes, slots, keys, heads, gains and gradients, against plain loops over what a
// hook beside them caught.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/error_text.h"
#include "tests/support/watched.h"

namespace plumb {
namespace {

using test::batch;
using test::block;
using test::Row;
using test::Rows;
using test::Watched;

double moment(const Rows& rows, int power, double from = 0) {
  double sum = 0, n = 0;
  for (const Row& row : rows)
    for (double x : row) sum += std::pow(x - from, power), ++n;
  return sum / n;
}
double rms(const Rows& rows) { return std::sqrt(moment(rows, 2)); }
double std_of(const Rows& rows) { return std::sqrt(moment(rows, 2, moment(rows, 1))); }
double dot_of(const Row& a, const Row& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}
double cosine(const Row& a, const Row& b) { return dot_of(a, b) / std::sqrt(dot_of(a, a) * dot_of(b, b)); }

bool is_matrix(const std::string& name) {
  for (const char* end : {".q.weight", ".k.weight", ".v.weight", ".o.weight", ".in.weight", ".out.weight"})
    if (name.ends_with(end)) return true;
  return false;
}

DecoderSpec lively() {  // large weights, so that there is something to measure
  DecoderSpec s = test::small_spec();
  s.init.std = 0.3;
  return s;
}

const Watched& watched() {
  static const Watched w(lively());
  return w;
}

#define EXPECT_CLOSE(got, want, relative) EXPECT_NEAR(got, want, std::abs(want) * (relative))

TEST(Instruments, MeasureTheStream) {
  const Watched& w = watched();
  for (int i = 0; i < w.spec.n_layer; ++i) {
    const Rows out = w.at(i, "out");
    const double mean = moment(out, 1);
    EXPECT_CLOSE(w.layer("act_rms", i), rms(out), 1e-12);
    EXPECT_NEAR(w.layer("act_mean", i), mean, 1e-12 * rms(out));
    EXPECT_CLOSE(w.layer("act_kurtosis", i), moment(out, 4, mean) / std::pow(moment(out, 2, mean), 2), 1e-11);
    double largest = 0;
    for (const Row& row : out)
      for (double x : row) largest = std::max(largest, std::abs(x));
    EXPECT_EQ(w.layer("act_max", i), largest);
  }
}

TEST(Instruments, MeasureTheWritesOverTheStreamThatTheyAreAddedTo) {
  const Watched& w = watched();
  for (int i = 0; i < w.spec.n_layer; ++i) {
    EXPECT_CLOSE(w.layer("attn_write_std", i), std_of(w.at(i, "attn.write")), 1e-12);
    EXPECT_CLOSE(w.layer("ffn_write_std", i), std_of(w.at(i, "ffn.write")), 1e-12);
    EXPECT_CLOSE(w.layer("attn_write_ratio", i), rms(w.at(i, "attn.write")) / rms(w.at(i, "in")), 1e-12);
    EXPECT_CLOSE(w.layer("ffn_write_ratio", i), rms(w.at(i, "ffn.write")) / rms(w.at(i, "mid")), 1e-12);
  }
  DecoderSpec s = lively();
  s.placement = "parallel";
  const Watched parallel(s);
  EXPECT_FALSE(parallel.catcher.has("blocks.1.mid"));
  EXPECT_CLOSE(parallel.layer("ffn_write_ratio", 1),
               rms(parallel.at(1, "ffn.write")) / rms(parallel.at(1, "in")), 1e-12);
}

double token_cosine_of(const Rows& rows) {
  double sum = 0, n = 0;
  for (std::size_t s = 0; s < batch; ++s)
    for (std::size_t t = 0; t < block; ++t)
      for (std::size_t u = 0; u < block; ++u)
        if (t != u) sum += cosine(rows[s * block + t], rows[s * block + u]), ++n;
  return sum / n;
}

TEST(Instruments, MeasureHowAlikePositionsAre) {
  for (int i = 0; i < 3; ++i) {
    const double want = token_cosine_of(watched().at(i, "out"));
    EXPECT_NEAR(watched().layer("token_cosine", i), want, 1e-12);
    EXPECT_LT(want, 0.9);
  }
  // A position's lanes are one vector.
  DecoderSpec s = lively();
  s.residual = "hyper_connections", s.residual_lanes = 3;
  const Watched w(s);
  const Rows lanes = w.at(1, "out");
  ASSERT_EQ(lanes.size(), static_cast<std::size_t>(batch * block * 3));
  Rows whole;
  for (std::size_t i = 0; i < lanes.size(); i += 3) {
    Row& row = whole.emplace_back();
    for (std::size_t j = i; j < i + 3; ++j) row.insert(row.end(), lanes[j].begin(), lanes[j].end());
  }
  EXPECT_NEAR(w.layer("token_cosine", 1), token_cosine_of(whole), 1e-12);
}

TEST(Instruments, MeasureTheMeanThatRmsNormLeavesIn) {
  for (int i = 0; i < 3; ++i) {
    double sum = 0, n = 0;
    for (const Row& row : watched().at(i, "attn.norm_in")) {
      const double mean = moment({row}, 1);
      sum += mean * mean / moment({row}, 2, mean), ++n;
    }
    EXPECT_CLOSE(watched().layer("norm_in_mean_over_std", i), std::sqrt(sum / n), 1e-12);
  }
}

TEST(Instruments, ARowOfZerosIsOneForBothNorms) {
  std::vector<float> data{0, 0, 0, 0, 1, 3, 1, 3};  // mean 2, std 1: (0 + 4) / 2
  DecoderSpec s;
  s.n_layer = 1;
  for (const ProbeEntry& e : probe_table())
    if (e.name == "norm_input") {
      const auto p = e.make(s);
      p->begin(1);
      p->at("blocks.0.attn.norm_in", Dir::forward, {data.data(), 2, 4, 4}, 0);
      p->merge(1);
      StepRow row;
      p->write(row);
      EXPECT_NEAR(row.find_layers("norm_in_mean_over_std")->at(0), std::sqrt(2.0), 1e-15);
    }
}

TEST(Instruments, MeasureHowFarGainsMoved) {
  for (const bool plus_one : {false, true}) {
    DecoderSpec s = lively();
    s.norm_gain = plus_one ? "plus_one" : "plain";
    const Watched w(s);
    for (int i = 0; i < s.n_layer; ++i) {
      const auto gains = w.elements(
          i, [&](const std::string& name) { return name.ends_with(plus_one ? ".norm.w" : ".norm.gamma"); });
      ASSERT_EQ(gains.size(), 64U);
      double sum = 0;
      for (const std::size_t e : gains) sum += std::pow(w.before[e] - (plus_one ? 0.0 : 1.0), 2);
      EXPECT_GT(sum, 0);
      EXPECT_CLOSE(w.layer("gain_drift", i), std::sqrt(sum / 64), 1e-12);
      EXPECT_EQ(w.rows.front().find_layers("gain_drift")->at(static_cast<std::size_t>(i)), 0);
    }
  }
  DecoderSpec s = lively();
  s.norm_affine = false;
  EXPECT_EQ(Watched(s).rows.back().find_layers("gain_drift"), nullptr);
}

TEST(Instruments, MeasureGradientsAndWhatOfAnUpdateIsKept) {
  const Watched& w = watched();
  for (int i = 0; i < w.spec.n_layer; ++i) {
    double squares = 0, below = 0, changed = 0;
    const auto all = w.elements(i, is_matrix);
    ASSERT_EQ(all.size(), static_cast<std::size_t>(4 * 32 * 32 + 2 * 32 * 48));
    for (const std::size_t e : all) {
      squares += static_cast<double>(w.grads[e]) * static_cast<double>(w.grads[e]);
      below += std::abs(static_cast<double>(w.grads[e])) < 1e-8;
      changed += w.before[e] != w.after[e];
    }
    const auto n = static_cast<double>(all.size());
    EXPECT_CLOSE(w.layer("weight_grad_rms", i), std::sqrt(squares / n), 1e-12);
    EXPECT_EQ(w.layer("grads_below_eps", i), below / n);
    EXPECT_EQ(w.layer("updates_kept", i), changed / n);
    EXPECT_GT(changed, 0);
  }
}

TEST(Instruments, CountSmallGradientsAndLostUpdates) {
  ParamLayout layout;
  layout.params = {{{.name = "blocks.0.a.weight", .shape = {{'F', 2}, {'C', 4}}, .layer = 0}, {}, 0}};
  const std::vector<float> grads{0, 1e-9F, -1e-9F, 2e-8F, -2e-8F, 1, 1, 1}, before(8, 1),
      after{1, 1, 1, 1, 1, 1, 2, 3};
  std::vector<float> broken = after, broken_grads = grads;
  broken[0] = broken_grads[0] = std::nanf("");
  DecoderSpec s;
  s.n_layer = 1;
  StepRow row, bad;
  for (const ProbeEntry& e : probe_table()) {
    const auto p = e.make(s);
    if (!p->watches_update()) continue;
    p->updated(layout, before, after, grads);
    p->write(row);
    p->updated(layout, before, broken, broken_grads);
    p->write(bad);
  }
  EXPECT_EQ(row.find_layers("grads_below_eps")->at(0), 3.0 / 8);
  EXPECT_EQ(row.find_layers("updates_kept")->at(0), 2.0 / 8);
  for (const char* name : {"grads_below_eps", "weight_grad_rms", "updates_kept"})
    EXPECT_TRUE(std::isnan(bad.find_layers(name)->at(0))) << name;
}

TEST(Instruments, MeasureTheIdentityInTheGradient) {
  const Watched& w = watched();
  const Rows last = w.grad_at(2);
  for (int i = 0; i < w.spec.n_layer; ++i) {
    const Rows g = w.grad_at(i);
    double v = 0, moved = 0;
    for (std::size_t r = 0; r < g.size(); ++r)
      for (std::size_t j = 0; j < g[r].size(); ++j)
        v += last[r][j] * last[r][j], moved += std::pow(g[r][j] - last[r][j], 2);
    EXPECT_CLOSE(w.layer("identity_share", i), v / (v + moved), 1e-12);
  }
  EXPECT_EQ(w.layer("identity_share", 2), 1);
  EXPECT_LT(w.layer("identity_share", 0), w.layer("identity_share", 1));
  DecoderSpec s = lively();
  s.residual = "rezero";  // branches write nothing at the start
  const Watched identity(s, 2, 0, 1);
  EXPECT_EQ(identity.layer("identity_share", 0), 1);
}

TEST(Instruments, MeasureSlots) {
  for (const char* kind : {"gelu", "relu", "swiglu"}) {
    DecoderSpec s = lively();
    s.ffn.kind = kind;
    const Watched w(s);
    bool some_dead = false;
    for (int i = 0; i < s.n_layer; ++i) {
      const Rows pre = w.at(i, "ffn.pre"), act = w.at(i, "ffn.act");
      double active = 0, dead = 0, dead_small = 0;
      const std::size_t n = pre[0].size();
      ASSERT_EQ(n, 48U);
      for (std::size_t j = 0; j < n; ++j) {
        bool above = false, large = false;
        for (std::size_t r = 0; r < pre.size(); ++r) {
          active += pre[r][j] > 0;
          above |= pre[r][j] > 0;
          large |= static_cast<float>(std::abs(act[r][j])) > 0.1F;
        }
        dead += !above, dead_small += !large;
      }
      some_dead |= dead_small > 0;
      EXPECT_EQ(w.layer("ffn_active", i), active / static_cast<double>(n * pre.size())) << kind;
      EXPECT_EQ(w.layer("ffn_dead", i), dead / static_cast<double>(n)) << kind;
      EXPECT_EQ(w.layer("ffn_dead_small", i), dead_small / static_cast<double>(n)) << kind;
    }
  }
  DecoderSpec s = test::small_spec();
  s.ffn.kind = "moe", s.ffn.n_expert = 4;
  const Watched mixture(s);
  EXPECT_EQ(mixture.rows.back().find_layers("ffn_active"), nullptr);
  EXPECT_EQ(mixture.rows.back().find_layers("ffn_revived"), nullptr);
}

std::unique_ptr<Probe> probe_named(std::string_view name, const DecoderSpec& s) {
  for (const ProbeEntry& e : probe_table())
    if (e.name == name) return e.make(s);
  ADD_FAILURE() << name;
  return nullptr;
}

DecoderSpec two_slots() {
  DecoderSpec s;
  s.n_layer = 2, s.d_ff = 2;
  return s;
}

/// Two shards of one row each, in both blocks: a in block 0, b in block 1, the second shard all below 0.
StepRow look(Probe& p, std::vector<float> a, std::vector<float> b) {
  std::vector<float> below{-1, -1};
  p.begin(2);
  for (const char* what : {".ffn.pre", ".ffn.act"}) {
    p.at(std::string("blocks.0") + what, Dir::forward, {a.data(), 1, 2, 2}, 0);
    p.at(std::string("blocks.1") + what, Dir::forward, {b.data(), 1, 2, 2}, 0);
    for (const char* block_name : {"blocks.0", "blocks.1"})
      p.at(std::string(block_name) + what, Dir::forward, {below.data(), 1, 2, 2}, 1);
  }
  p.merge(2);
  StepRow row;
  p.write(row);
  return row;
}

TEST(Instruments, CountRevivedSlotsFromLookToLook) {
  using V = std::vector<double>;
  const auto p = probe_named("ffn_activity", two_slots());
  const StepRow first = look(*p, {-1, 1}, {-1, -1});
  EXPECT_EQ(first.find_layers("ffn_revived"), nullptr);
  EXPECT_EQ(*first.find_layers("ffn_dead"), (V{0.5, 1}));
  EXPECT_EQ(*first.find_layers("ffn_active"), (V{0.25, 0}));
  EXPECT_EQ(*first.find_layers("ffn_dead_small"), (V{0, 0}));  // -1 is not small
  EXPECT_EQ(*look(*p, {1, -1}, {-1, 1}).find_layers("ffn_revived"), (V{1, 1}));
  EXPECT_EQ(*look(*p, {1, 1}, {-1, 1}).find_layers("ffn_revived"), (V{1, 0}));
  EXPECT_EQ(*look(*p, {1, 1}, {1, 1}).find_layers("ffn_revived"), (V{0, 1}));
  EXPECT_EQ(*look(*p, {1, 1}, {1, 1}).find_layers("ffn_revived"), (V{0, 0}));
  const StepRow bad = look(*p, {std::nanf(""), 1}, {1, 1});
  for (const char* name : {"ffn_active", "ffn_dead", "ffn_dead_small", "ffn_revived"}) {
    EXPECT_TRUE(std::isnan(bad.find_layers(name)->at(0))) << name;
    EXPECT_FALSE(std::isnan(bad.find_layers(name)->at(1))) << name;
  }
}

// A probe that begins in the middle of a run, as after a resume.
TEST(Instruments, RememberDeadSlotsThroughACheckpoint) {
  using V = std::vector<double>;
  const auto p = probe_named("ffn_activity", two_slots()), next = probe_named("ffn_activity", two_slots());
  EXPECT_EQ(p->memory(), "");
  look(*p, {-1, 1}, {-1, -1});
  EXPECT_EQ(p->memory(), "d");  // of slots 0 to 3 all but 1
  next->recall(p->memory());
  EXPECT_EQ(*look(*next, {1, 1}, {-1, 1}).find_layers("ffn_revived"), (V{1, 1}));
  for (const char* wrong : {"", "dd", "x"})
    EXPECT_NE(test::error_text([&] { next->recall(wrong); }).find("not of 2 blocks of 2 slots"),
              std::string::npos);
}

TEST(Instruments, MeasureKeys) {
  for (const char* kind : {"gelu", "swiglu", "moe"}) {
    DecoderSpec s = lively();
    s.ffn.kind = kind, s.ffn.n_expert = 3;
    const Watched w(s);
    for (int i = 0; i < s.n_layer; ++i) {
      double sum = 0, n = 0, largest = -1, near = 0;
      for (const ParamInfo& p : w.layout.params) {
        const bool gated = std::string(kind) == "swiglu";
        if (p.spec.layer != i || !p.spec.name.ends_with(gated ? "ffn.gate.weight" : ".in.weight")) continue;
        Rows keys;
        for (std::int64_t r = 0; r < 48; ++r) {
          const auto at = w.before.begin() + p.offset + r * 32;
          keys.emplace_back(at, at + 32);
        }
        for (std::size_t a = 0; a < keys.size(); ++a)
          for (std::size_t b = 0; b < a; ++b) {
            const double c = cosine(keys[a], keys[b]);
            sum += c, ++n, largest = std::max(largest, c), near += c > 0.95;
          }
      }
      EXPECT_EQ(n, (std::string(kind) == "moe" ? 3 : 1) * 48 * 47 / 2);
      EXPECT_NEAR(w.layer("ffn_key_cosine_mean", i), sum / n, 1e-12) << kind;
      EXPECT_NEAR(w.layer("ffn_key_cosine_max", i), largest, 1e-12) << kind;
      EXPECT_EQ(w.layer("ffn_near_duplicates", i), near) << kind;
    }
  }
}

TEST(Instruments, CountNearDuplicates) {
  ParamLayout layout;
  layout.params = {
      {{.name = "blocks.0.ffn.in.weight", .role = Role::ffn_in, .shape = {{'F', 4}, {'C', 2}}, .layer = 0},
       {},
       0}};
  // Directions 0, 10, 20 and 90 degrees: cos 10 = 0.985 twice, cos 20 = 0.940.
  std::vector<float> keys;
  for (const double degrees : {0.0, 10.0, 20.0, 90.0})
    for (const double x : {std::cos(degrees * M_PI / 180), std::sin(degrees * M_PI / 180)})
      keys.push_back(static_cast<float>(3 * x));
  DecoderSpec s;
  s.n_layer = 1, s.d_ff = 4, s.d_model = 2;
  const auto p = probe_named("ffn_keys", s);
  StepRow row, bad;
  p->updated(layout, keys, keys, keys);
  p->write(row);
  EXPECT_EQ(row.find_layers("ffn_near_duplicates")->at(0), 2);
  EXPECT_NEAR(row.find_layers("ffn_key_cosine_max")->at(0), std::cos(M_PI / 18), 1e-6);
  keys[3] = std::nanf("");
  p->updated(layout, keys, keys, keys);
  p->write(bad);
  for (const auto& [name, values] : bad.layers) EXPECT_TRUE(std::isnan(values.at(0))) << name;
  EXPECT_EQ(bad.layers.size(), 3U);
}

TEST(Instruments, MeasureThePredictions) {
  const Watched& w = watched();
  double entropy = 0, log_z = 0, n = 0;
  for (const Row& z : w.catcher.rows("logits")) {
    double sum = 0;
    for (double x : z) sum += std::exp(x);
    for (double x : z) entropy -= std::exp(x) / sum * std::log(std::exp(x) / sum);
    log_z += std::log(sum), ++n;
  }
  EXPECT_CLOSE(w.scalar("logit_entropy"), entropy / n, 1e-12);
  EXPECT_CLOSE(w.scalar("log_z"), log_z / n, 1e-12);
}

TEST(Instruments, MeasureHowAlikeHeadsAre) {
  const Watched& w = watched();
  for (int i = 0; i < w.spec.n_layer; ++i) {
    double sum = 0, n = 0;
    for (const Row& row : w.at(i, "attn.ctx"))
      for (std::size_t a = 0; a < 4; ++a)
        for (std::size_t b = 0; b < a; ++b) {
          const auto head = [&](std::size_t h) {
            return Row(row.begin() + static_cast<std::ptrdiff_t>(8 * h),
                       row.begin() + static_cast<std::ptrdiff_t>(8 * h + 8));
          };
          sum += std::abs(cosine(head(a), head(b))), ++n;
        }
    EXPECT_CLOSE(w.layer("head_cosine", i), sum / n, 1e-12);
  }
  DecoderSpec s = lively();
  s.n_head = 1, s.d_head = 32;
  EXPECT_EQ(Watched(s).rows.back().find_layers("head_cosine"), nullptr);  // no pair
}

TEST(Instruments, GiveTheSameBitsOnAnyNumberOfThreadsAndRecomputing) {
  const auto same = [](const Watched& other, int threads) {
    for (std::size_t i = 0; i < other.rows.size(); ++i) {
      EXPECT_EQ(other.rows[i].values, watched().rows[i].values) << threads << " " << i;
      EXPECT_EQ(other.rows[i].layers, watched().rows[i].layers) << threads << " " << i;
    }
  };
  for (const int threads : {1, 4}) same(Watched(lively(), threads), threads);
  same(Watched(lively(), 2, 1), 2);
}

// Every number of every point, whatever else its probe looks at.
TEST(Instruments, NaNIsWrittenAsWhatItIs) {
  DecoderSpec s = two_slots();
  s.block_size = 2, s.d_model = 4, s.n_head = 2, s.d_head = 2, s.d_ff = 4;
  const std::vector<std::pair<const char*, Dir>> places{{"logits", Dir::forward},
                                                        {"blocks.1.in", Dir::forward},
                                                        {"blocks.1.attn.norm_in", Dir::forward},
                                                        {"blocks.1.attn.ctx", Dir::forward},
                                                        {"blocks.1.attn.write", Dir::forward},
                                                        {"blocks.1.mid", Dir::forward},
                                                        {"blocks.1.ffn.pre", Dir::forward},
                                                        {"blocks.1.ffn.act", Dir::forward},
                                                        {"blocks.1.ffn.write", Dir::forward},
                                                        {"blocks.1.out", Dir::forward},
                                                        {"blocks.1.out", Dir::backward}};
  for (const char* name : {"stream", "writes", "token_cosine", "norm_input", "identity_share", "ffn_activity",
                           "output", "head_redundancy"}) {
    const auto p = probe_named(name, s);
    for (const int bad : {0, 5, 15}) {
      std::vector<float> data(16);
      for (std::size_t i = 0; i < 16; ++i) data[i] = static_cast<float>(i) - 7.5F;
      data[static_cast<std::size_t>(bad)] = std::nanf("");
      std::vector<float> good(16, 1);
      p->begin(2);
      for (int shard = 0; shard < 2; ++shard)
        for (const auto& [point, dir] : places)
          if (p->wants(point, dir)) p->at(point, dir, {(shard == 0 ? data : good).data(), 4, 4, 4}, shard);
      p->merge(2);
      StepRow row;
      p->write(row);
      EXPECT_FALSE(row.values.empty() && row.layers.empty()) << name;
      for (const auto& [metric, value] : row.values) EXPECT_TRUE(std::isnan(value)) << metric << " " << bad;
      for (const auto& [metric, values] : row.layers)
        EXPECT_TRUE(std::isnan(values.at(1))) << metric << " " << bad;
    }
  }
}

TEST(Instruments, RefuseWhatDoesNotFitTheModel) {
  std::vector<float> data(12, 1);
  DecoderSpec s = two_slots();
  s.block_size = 5;
  const auto said = [&](const char* name, const char* point, Dir dir) {
    const auto p = probe_named(name, s);
    p->begin(1);
    return test::error_text([&] { p->at(point, dir, {data.data(), 4, 3, 3}, 0); });
  };
  EXPECT_NE(said("token_cosine", "blocks.0.out", Dir::forward).find("4 rows are not whole sequences of 5"),
            std::string::npos);
  EXPECT_NE(said("ffn_activity", "blocks.0.ffn.pre", Dir::forward).find("has 3 slots, the spec's d_ff is 2"),
            std::string::npos);
  EXPECT_NE(
      said("identity_share", "blocks.0.out", Dir::backward).find("12 elements, the last block's gradient 0"),
      std::string::npos);
}

}  // namespace
}  // namespace plumb
