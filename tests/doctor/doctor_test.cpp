// The diagnosis of traces: rules on made-up numbers, explaining away, and what it may not read.
#include "plumb/doctor/doctor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>


namespace plumb::test {
namespace {

Trace with_facts(std::vector<FactRow> facts, Json config = {}) {
  Trace t;
  t.header = {"somebody", std::move(config)};
  t.facts = std::move(facts);
  return t;
}

void losses(Trace& t, const std::vector<double>& values) {
  for (std::size_t i = 0; i < values.size(); ++i)
    t.steps.push_back({static_cast<std::int64_t>(i), {{"loss", values[i]}}, {}});
}

std::vector<double> falling(std::size_t n, double from, double to) {
  std::vector<double> v;
  for (std::size_t i = 0; i < n; ++i)
    v.push_back(to + (from - to) * std::exp(-6.0 * static_cast<double>(i) / static_cast<double>(n)));
  return v;
}

std::vector<std::string> causes(const Diagnosis& d) {
  std::vector<std::string> names;
  for (const Finding& f : d.findings) names.push_back(f.cause);
  return names;
}

using Names = std::vector<std::string>;

TEST(Doctor, NamesAreTheIdsOfTheContractAndWhatTheyExplainExists) {
  const auto table = doctor_table();
  Names names;
  for (const DoctorEntry& e : table) names.emplace_back(e.name);
  EXPECT_TRUE(std::ranges::is_sorted(names));
  for (const DoctorEntry& e : table) {
    std::stringstream list{std::string(e.explains)};
    for (std::string one; std::getline(list, one, ',');) {
      one.erase(0, one.find_first_not_of(' '));
      EXPECT_NE(std::ranges::find(names, one), names.end()) << e.name << " explains " << one;
      EXPECT_NE(one, e.name);
    }
    EXPECT_FALSE(e.what.empty() || e.symptom.empty() || e.test.empty() || e.mend.empty() || e.needs.empty())
        << e.name;
  }
}

// Of two that explain each other neither would be named.
TEST(Doctor, NothingExplainsItself) {
  const auto table = doctor_table();
  std::vector<DoctorEntry> left = table;
  const auto explained = [](const DoctorEntry& by, std::string_view name) {
    return (", " + std::string(by.explains) + ",").find(", " + std::string(name) + ",") != std::string::npos;
  };
  for (std::size_t before = 0; before != left.size();) {
    before = left.size();
    std::erase_if(left, [&](const DoctorEntry& e) {
      return std::ranges::none_of(std::vector(left),
                                  [&](const DoctorEntry& by) { return explained(by, e.name); });
    });
  }
  EXPECT_TRUE(left.empty()) << left.front().name;
}

TEST(Doctor, ALossAtTheUnigramBehindPostLnIsTheNormOnThePath) {
  Trace t = with_facts({{"placement", "post"}, {"norm", "layer"}, {"baseline_unigram", 5.686}});
  losses(t, falling(1200, 7.1, 5.69));
  const Diagnosis d = diagnose(t, doctor_table());
  EXPECT_EQ(d.verdict, "sick");
  EXPECT_EQ(causes(d), (Names{"norm_on_identity_path"}));
}

TEST(Doctor, PostLnThatLearnsIsHealthy) {
  Trace t = with_facts({{"placement", "post"}, {"norm", "layer"}, {"baseline_unigram", 5.686}});
  losses(t, falling(1200, 7.1, 4.6));
  const Diagnosis d = diagnose(t, doctor_table());
  EXPECT_EQ(d.verdict, "healthy");
  EXPECT_TRUE(d.findings.empty());
}

TEST(Doctor, AStuckRunOfWhichNothingIsKnownIsUndecidedAndSaysWhatIsMissing) {
  Trace t = with_facts({{"baseline_unigram", 5.686}});
  losses(t, falling(1200, 7.1, 5.69));
  const Diagnosis d = diagnose(t, doctor_table());
  EXPECT_EQ(d.verdict, "undecided");
  EXPECT_NE(std::ranges::find(d.missing, "path_skip"), d.missing.end());
}

TEST(Doctor, AFewLossesAreUndecided) {
  Trace t = with_facts({});
  losses(t, falling(20, 7.1, 6.9));
  EXPECT_EQ(diagnose(t, doctor_table()).verdict, "undecided");
  EXPECT_EQ(diagnose(with_facts({}), doctor_table()).verdict, "undecided");
}

TEST(Doctor, ASpikeIsFoundWhereItIsAndWhetherItRecovered) {
  for (const bool back : {true, false}) {
    Trace t = with_facts({{"baseline_unigram", 5.7}});
    auto v = falling(600, 7.1, 4.5);
    for (std::size_t i = 300; i < (back ? 310 : v.size()); ++i) v[i] += 3;
    losses(t, v);
    const Diagnosis d = diagnose(t, doctor_table());
    ASSERT_FALSE(d.findings.empty());
    EXPECT_EQ(d.findings.front().cause, "loss_spike");
    EXPECT_EQ(d.findings.front().first_step(), 300);
    EXPECT_EQ(d.findings.front().why.find("does not") == std::string::npos, back);
  }
}

TEST(Doctor, ANanIsNeverBlinding) {
  Trace t = with_facts(
      {{"baseline_unigram", 5.7}, {"non_finite", "the first tensor that is not finite is blocks.3.ffn.pre"}});
  auto v = falling(600, 7.1, 4.5);
  v.push_back(NAN);
  losses(t, v);
  const Diagnosis d = diagnose(t, doctor_table());
  ASSERT_EQ(causes(d), (Names{"non_finite"}));
  EXPECT_EQ(d.findings.front().first_step(), 600);
  EXPECT_NE(d.findings.front().why.find("blocks.3.ffn.pre"), std::string::npos);
}

TEST(Doctor, AnEarlyNanDoesNotHideAFindingOfTheFacts) {
  Trace t = with_facts({{"causal", false}});
  losses(t, {7.1, NAN});
  EXPECT_EQ(causes(diagnose(t, doctor_table())), (Names{"causal_leak", "non_finite"}));
}

TEST(Doctor, DeeperCausesExplainShallowerOnes) {
  const Json finite(-5.0);
  const Trace t = with_facts({{"causal", false}, {"mask_value", finite}});
  EXPECT_EQ(causes(diagnose(t, doctor_table())), (Names{"mask_value_finite"}));
}

TEST(Doctor, DoesNotReadWhatWasInjectedNorNames) {
  Json config = Json::object();
  config["fault"]["inject"] = Json(std::vector<std::string>{"no_final_norm"});
  const Trace told = with_facts({{"causal", true}}, config), plain = with_facts({{"causal", true}});
  EXPECT_EQ(Evidence(told).setting("fault.inject"), nullptr);
  EXPECT_EQ(diagnosis_json(diagnose(told, doctor_table()), doctor_table()),
            diagnosis_json(diagnose(plain, doctor_table()), doctor_table()));
}

TEST(Doctor, OverfittingIsReadFromBothCurves) {
  Trace t = with_facts({{"baseline_unigram", 5.7}});
  losses(t, falling(600, 7.1, 1.0));
  for (const auto& [step, val] : {std::pair{200, 4.5}, {400, 4.4}, {600, 5.1}})
    t.steps.push_back({step, {{"val_loss", val}}, {}});
  EXPECT_EQ(causes(diagnose(t, doctor_table())), (Names{"overfitting"}));
}

TEST(Doctor, AnswersAsTheContractSays) {
  const Trace t = with_facts({{"causal", false}});
  const Json j = diagnosis_json(diagnose(t, doctor_table()), doctor_table());
  EXPECT_EQ(j.at("verdict", "").as_string(""), "sick");
  const Json& f = j.at("findings", "").as_array("").front();
  for (const char* key :
       {"cause", "where", "confidence", "first_step", "evidence", "why", "fix", "patch", "confirmed"})
    EXPECT_NE(f.find(key), nullptr) << key;
  const Json& e = f.at("evidence", "").as_array("").front();
  for (const char* key : {"metric", "value", "threshold", "step"}) EXPECT_NE(e.find(key), nullptr) << key;
}

TEST(Doctor, TextFitsItsColumns) {
  const Trace t = with_facts({{"causal", false}, {"tied", false}, {"tied_declared", true}});
  std::stringstream text(diagnosis_text(diagnose(t, doctor_table()), doctor_table(), 80));
  for (std::string line; std::getline(text, line);) EXPECT_LE(line.size(), 100) << line;
}

}  // namespace
}  // namespace plumb::test
