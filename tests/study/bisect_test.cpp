// What differs is found in pieces that are configs; and the search finds what was planted in losses that are made up.
#include "plumb/study/bisect.h"

#include <gtest/gtest.h>

#include <set>

#include "plumb/base/error.h"
#include "plumb/spec/from_config.h"
#include "tests/support/small_run.h"

namespace plumb::test {
namespace {

using Names = std::vector<std::string>;

Config with(const std::vector<const char*>& set) {
  Config c = small_config();
  for (const char* s : set) set_value(c, s);
  return c;
}

Differing between(const std::vector<const char*>& good, const std::vector<const char*>& bad) {
  return differing_settings(with(good), with(bad), 60, Components{});
}

std::vector<Names> keys_of(const Differing& d) {
  std::vector<Names> all;
  for (const Suspect& s : d.suspects) all.push_back(s.keys);
  return all;
}

// As a run's folder has it: every value written out.
Config resolved(const Config& c) { return parse_config(dump_toml(resolve_config(c), false), "config.toml"); }

TEST(Differing, WhatIsImpliedBelongsToWhatImpliesIt) {
  for (const bool of_runs : {false, true}) {
    Config good = small_config(), bad = with({"model.residual=deepnorm"});
    if (of_runs) good = resolved(good), bad = resolved(bad);
    const Differing d = differing_settings(good, bad, 60, Components{});
    EXPECT_EQ(keys_of(d), std::vector<Names>{{"model.residual"}});
    // DeepNorm implies Post-LN and Xavier's init, and Post-LN no final norm.
    const std::set<std::string> implied(d.suspects[0].implied.begin(), d.suspects[0].implied.end());
    EXPECT_EQ(implied, (std::set<std::string>{"model.placement", "model.final_norm", "init.scheme"}));
    EXPECT_EQ(resolve_config(with_bad(d, {0})).model.placement, "post");
    EXPECT_EQ(resolve_config(with_bad(d, {})).model.placement, "pre");
  }
}

TEST(Differing, WhatIsOnlyValidTogetherIsTestedTogether) {
  // Sandwich was asked for, and DeepNorm is Post-LN alone.
  const Differing d = between({"model.placement=sandwich", "train.lr=1e-3"}, {"model.residual=deepnorm"});
  const auto keys = keys_of(d);
  ASSERT_EQ(keys.size(), 2u);
  EXPECT_EQ(std::set<std::string>(keys[0].begin(), keys[0].end()),
            (std::set<std::string>{"model.placement", "model.residual"}));
  EXPECT_NE(d.suspects[0].refused.find("DeepNorm"), std::string::npos) << d.suspects[0].refused;
  EXPECT_EQ(keys[1], Names{"train.lr"});
}

TEST(Differing, EachPartIsAConfig) {
  const Differing d = between(
      {"train.min_lr=1e-3", "train.lr=2e-3", "model.n_head=4", "model.d_model=32"},
      {"train.lr=1e-4", "train.min_lr=1e-5", "model.n_head=3", "model.d_model=36", "model.residual=rezero"});
  for (std::size_t i = 0; i < d.suspects.size(); ++i) EXPECT_EQ(refusal(with_bad(d, {i}), Components{}), "");
  EXPECT_LT(d.suspects.size(), 5u);
}

TEST(Differing, AllOfThemIsTheBadConfig) {
  const Config bad =
      with({"init.scheme=fixup", "train.optimizer=muon", "model.position=t5", "model.n_head=2"});
  const Differing d = differing_settings(small_config(), bad, 60, Components{});
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < d.suspects.size(); ++i) all.push_back(i);
  EXPECT_EQ(dump_toml(resolve_config(with_bad(d, all)), false), dump_toml(resolve_config(bad), false));
  EXPECT_EQ(dump_toml(resolve_config(with_bad(d, {})), false),
            dump_toml(resolve_config(small_config()), false));
}

TEST(Differing, WhatStaysTheSameStaysSoWhateverImpliedIt) {
  // Norm "none" in both: of Fixup in one, of ReZero in the other. Either alone must not bring a norm back.
  const Differing d = between({"init.scheme=fixup"}, {"model.residual=rezero", "init.scheme=normal"});
  for (std::size_t i = 0; i < d.suspects.size(); ++i)
    EXPECT_EQ(resolve_config(with_bad(d, {i})).model.norm, "none") << d.suspects[i].keys[0];
}

TEST(Differing, WhatCannotChangeTheResultIsLeftAside) {
  const Differing d =
      between({}, {"train.lr=1e-4", "train.threads=1", "probe.every=7", "train.checkpoint_every=5",
                   "data.split=0.5", "train.seed=9", "train.eval_every=3"});
  EXPECT_EQ(keys_of(d), std::vector<Names>{{"train.lr"}});
  std::set<std::string> aside;
  for (const LeftAside& a : d.left_aside) aside.insert(a.key);
  EXPECT_EQ(aside, (std::set<std::string>{"train.threads", "probe.every", "train.checkpoint_every",
                                          "data.split", "train.seed", "train.eval_every"}));
  // Its length is the schedule's, and a run is shortened to 60 steps: only a warm-up can tell.
  EXPECT_THROW(between({"train.warmup=0"}, {"train.warmup=0", "train.steps=600"}), Error);
  EXPECT_EQ(keys_of(between({}, {"train.steps=600"})), std::vector<Names>{{"train.steps"}});
}

TEST(Differing, Refuses) {
  EXPECT_THROW(between({}, {}), Error);
  EXPECT_THROW(between({}, {"train.threads=1"}), Error);
  EXPECT_THROW(between({}, {"model.n_head=3"}), Error);
}

// Twelve settings that differ, of which each can be changed by itself.
const std::vector<const char*> many = {"train.lr=1e-4",   "model.norm_eps=1e-6", "train.beta1=0.8",
                                       "train.beta2=0.9", "train.adam_eps=1e-7", "train.weight_decay=0.2",
                                       "train.warmup=20", "train.grad_clip=2",   "train.z_loss=0.1",
                                       "init.std=0.03",   "model.d_ff=48",       "train.dropout=0.1"};

// Losses 2 + what `harm` says, with noise that depends on config and seed; the configs that were run are counted.
struct MadeUp {
  std::function<double(const Config&)> harm;
  int configs = 0;
  Bisection of(const Differing& d) {
    return bisect(d, {.steps = 60, .seeds = 4}, Components{}, [&](const std::vector<Config>& all) {
      std::vector<std::vector<double>> losses;
      for (const Config& c : all) {
        std::vector<double> row;
        const auto name = static_cast<std::uint64_t>(configs++);
        for (std::uint64_t s = 0; s < 4; ++s)
          row.push_back(2 + harm(c) + 0.02 * static_cast<double>(s) +
                        0.001 * static_cast<double>(stream(5, "noise").below(100, 0, name, s)) / 100);
        losses.push_back(row);
      }
      return losses;
    });
  }
};

std::string verdict_of(const Bisection& b, const std::string& key) {
  for (const Verdict& v : b.settings)
    for (const std::string& k : v.suspect.keys)
      if (k == key) return v.verdict;
  return "none";
}

TEST(Bisect, OneCulpritOfThree) {
  MadeUp m{[](const Config& c) { return c.train.beta1 == 0.8 ? 0.5 : 0; }};
  const Bisection b = m.of(between({}, {many[0], many[1], many[2]}));
  EXPECT_TRUE(b.worse);
  EXPECT_EQ(verdict_of(b, "train.beta1"), "hurts alone");
  EXPECT_EQ(verdict_of(b, "train.lr"), "no effect seen");
  EXPECT_NEAR(b.settings[0].heals->mean, 0, 0.01);
  EXPECT_EQ(m.configs, 8);
  EXPECT_EQ(b.runs, 32);
  EXPECT_EQ(runs_expected(between({}, {many[0], many[1], many[2]}), {.seeds = 4}), 32);
  EXPECT_EQ(b.because, "train.beta1");
}

TEST(Bisect, TwoThatHurtOnlyTogether) {
  MadeUp m{[](const Config& c) { return c.train.beta1 == 0.8 && c.train.lr == 1e-4 ? 0.5 : 0; }};
  const Bisection b = m.of(between({}, {many[0], many[1], many[2]}));
  EXPECT_EQ(verdict_of(b, "train.beta1"), "only together with train.lr");
  EXPECT_EQ(verdict_of(b, "train.lr"), "only together with train.beta1");
  EXPECT_EQ(verdict_of(b, "model.norm_eps"), "no effect seen");
}

TEST(Bisect, EitherIsEnough) {
  MadeUp m{[](const Config& c) { return c.train.beta1 == 0.8 || c.train.lr == 1e-4 ? 0.5 : 0; }};
  const Bisection b = m.of(between({}, {many[0], many[1], many[2]}));
  EXPECT_EQ(verdict_of(b, "train.beta1"), "hurts alone");
  EXPECT_EQ(verdict_of(b, "train.lr"), "hurts alone");
}

TEST(Bisect, OneHelpsAndAnotherHurtsMore) {
  MadeUp m{[](const Config& c) { return (c.train.beta1 == 0.8 ? 0.5 : 0) - (c.train.lr == 1e-4 ? 0.2 : 0); }};
  const Bisection b = m.of(between({}, {many[0], many[1], many[2]}));
  EXPECT_EQ(verdict_of(b, "train.beta1"), "hurts alone");
  EXPECT_EQ(verdict_of(b, "train.lr"), "helps");
}

// Certain, and too small to be what is looked for: 0.01 of 0.51 nats.
TEST(Bisect, WhatIsSmallBesideTheWholeIsNoCulprit) {
  MadeUp m{
      [](const Config& c) { return (c.train.beta1 == 0.8 ? 0.5 : 0) + (c.train.lr == 1e-4 ? 0.01 : 0); }};
  const Bisection b = m.of(between({}, {many[0], many[1], many[2]}));
  EXPECT_EQ(verdict_of(b, "train.beta1"), "hurts alone");
  EXPECT_EQ(verdict_of(b, "train.lr"), "no effect seen");
  EXPECT_GT(b.settings[1].alone->low, 0);
}

TEST(Bisect, NotWorse) {
  MadeUp m{[](const Config& c) { return c.train.beta1 == 0.8 ? -0.1 : 0; }};
  const Bisection b = m.of(between({}, {many[0], many[1], many[2]}));
  EXPECT_FALSE(b.worse);
  EXPECT_EQ(m.configs, 2);
  EXPECT_TRUE(b.settings.empty());
  EXPECT_NE(b.because.find("not worse within"), std::string::npos);
}

TEST(Bisect, ARunThatBreaksIsWorse) {
  MadeUp m{[](const Config& c) { return c.train.lr == 1e-4 ? HUGE_VAL : 0; }};
  const Bisection b = m.of(between({}, {many[0], many[1], many[2]}));
  EXPECT_EQ(verdict_of(b, "train.lr"), "hurts alone");
  EXPECT_EQ(verdict_of(b, "train.beta1"), "no effect seen");
}

// By halves: four levels of at most two configs, and good, bad, the rest and the mended one; singles would be 26.
TEST(Bisect, OneCulpritOfTwelve) {
  const Differing d = between({}, many);
  ASSERT_EQ(d.suspects.size(), many.size());
  for (const Suspect& s : d.suspects) {
    const std::string& key = s.keys[0];
    const FieldValue bad = config_field(key, "").get(d.bad);
    MadeUp m{[&](const Config& c) { return config_field(key, "").get(c) == bad ? 0.5 : 0; }};
    if (key == "train.warmup") continue;  // shortened with the run
    const Bisection b = m.of(d);
    for (const Verdict& v : b.settings)
      EXPECT_EQ(v.verdict, v.suspect.keys[0] == key ? "hurts alone" : "no effect seen") << v.suspect.keys[0];
    EXPECT_LE(m.configs, 12) << key;
    ASSERT_TRUE(b.rest.has_value());
    EXPECT_NEAR(b.rest->mean, 0, 0.01);
  }
}

TEST(Bisect, TwoCulpritsAndAPairOfTwelve) {
  MadeUp m{[](const Config& c) {
    return (c.train.lr == 1e-4 ? 0.3 : 0) + (c.model.d_ff == 48 ? 0.1 : 0) +
           (c.train.beta1 == 0.8 && c.train.dropout == 0.1 ? 0.2 : 0);
  }};
  const Bisection b = m.of(between({}, many));
  EXPECT_EQ(verdict_of(b, "train.lr"), "hurts alone");
  EXPECT_EQ(verdict_of(b, "model.d_ff"), "hurts alone");
  EXPECT_EQ(verdict_of(b, "train.beta1"), "only together with train.dropout");
  EXPECT_EQ(verdict_of(b, "train.dropout"), "only together with train.beta1");
  EXPECT_EQ(verdict_of(b, "train.beta2"), "no effect seen");
}

TEST(Bisect, TrainedTheSameHoweverManyRunAtATime) {
  const Differing d =
      differing_settings(small_config(), with({"train.lr=3e-6", "model.norm_eps=1e-6"}), 40, Components{});
  const auto tried = [&](int at_a_time) {
    return bisect(d, {.steps = 40, .at_a_time = at_a_time}, Components{}, made_up_text());
  };
  const Bisection one = tried(1), two = tried(2);
  EXPECT_EQ(one.good, two.good);
  EXPECT_EQ(one.bad, two.bad);
  EXPECT_EQ(verdict_of(two, "train.lr"), "hurts alone");
  EXPECT_EQ(verdict_of(two, "model.norm_eps"), "no effect seen");
  EXPECT_GT(two.difference.mean, 0.1);
}

TEST(Bisect, StopsWhenItIsAsked) {
  const Differing d = differing_settings(small_config(), with({"train.lr=3e-6"}), 40, Components{});
  try {
    bisect(d, {.steps = 40, .at_a_time = 2, .interrupted = [] { return true; }}, Components{},
           made_up_text());
    FAIL() << "it went on";
  } catch (const Error& e) {
    EXPECT_EQ(e.exit_code, 130);
  }
}

}  // namespace
}  // namespace plumb::test
