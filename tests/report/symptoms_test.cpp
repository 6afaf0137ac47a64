// The manual by symptoms: each cause shows one, each has its causes in order, and what people write finds it.
#include "plumb/report/symptoms.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <sstream>

#include "plumb/base/files.h"

namespace plumb::test {
namespace {

using Names = std::vector<std::string>;

Names names_like(std::string_view words) {
  Names all;
  for (const Symptom& s : symptoms_like(words)) all.emplace_back(s.name);
  return all;
}

TEST(Symptoms, EachCauseShowsOneThatThereIsAndEachHasTwoCauses) {
  std::set<std::string> known;
  for (const Symptom& s : symptom_table()) {
    EXPECT_TRUE(known.emplace(s.name).second) << s.name;
    EXPECT_GE(causes_of(s, doctor_table()).size(), 2u) << s.name;
  }
  for (const DoctorEntry& c : doctor_table()) {
    EXPECT_FALSE(c.shows.empty()) << c.name;
    for (const std::string& shown : names_in(c.shows))
      EXPECT_TRUE(known.contains(shown.substr(0, shown.rfind(' ')))) << c.name << ": " << shown;
  }
}

// 1, 2, 3 …: a place that is missing or taken twice is a slip.
TEST(Symptoms, PlacesOfASymptomAreCountedWithoutGaps) {
  for (const Symptom& s : symptom_table()) {
    std::set<int> places;
    for (const DoctorEntry& c : doctor_table())
      for (const std::string& shown : names_in(c.shows)) {
        const auto blank = shown.rfind(' ');
        if (shown.substr(0, blank) != s.name) continue;
        EXPECT_TRUE(places.insert(std::stoi(shown.substr(blank + 1))).second) << s.name << " " << c.name;
      }
    EXPECT_EQ(*places.begin(), 1) << s.name;
    EXPECT_EQ(*places.rbegin(), static_cast<int>(places.size())) << s.name;
  }
}

TEST(Symptoms, CausesComeInTheirOrder) {
  const auto& table = symptom_table();
  const auto leak = std::ranges::find(table, "too_good", &Symptom::name);
  ASSERT_NE(leak, table.end());
  EXPECT_EQ(causes_of(*leak, doctor_table()).front().name, "causal_leak");
}

// As they stand in forums and issues; the first answer must be the symptom.
TEST(Symptoms, WhatPeopleWriteIsFound) {
  for (const auto& [words, name] : std::vector<std::pair<const char*, const char*>>{
           {"loss is stuck at ln V", "stuck_uniform"},
           {"my loss doesn't move from log(vocab_size)", "stuck_uniform"},
           {"training plateaus at the unigram entropy", "stuck_unigram"},
           {"model predicts the same token everywhere", "stuck_unigram"},
           {"loss goes to zero after a few steps", "too_good"},
           {"suspiciously low loss but generated text is garbage", "too_good"},
           {"gradients explode and then nan", "nan_rising"},
           {"sudden NaN out of nowhere", "nan_sudden"},
           {"slightly worse than the reference implementation", "slightly_worse"},
           {"converges too slowly", "slow"},
           {"val loss goes up, train loss goes down, overfitting?", "validation_rises"},
           {"model.eval() gives different results than model.train()", "train_eval_differ"},
           {"works with one seed but not another", "seed_dependent"},
           {"Loss Spikes during training", "spikes"},
           {"the loss blew up: it blows up and never recovers", "diverges"},
           {"deeper models with more layers train worse", "worse_with_depth"},
           {"quality drops for long contexts", "worse_with_length"},
           {"loss jumps after resuming from a checkpoint", "resume_departs"},
           {"logits of converted Hugging Face weights do not match", "import_differs"},
           {"initial loss is huge", "first_loss"},
       }) {
    const Names found = names_like(words);
    ASSERT_FALSE(found.empty()) << words;
    EXPECT_EQ(found.front(), name) << words;
    EXPECT_LE(found.size(), 3u) << words;
  }
}

TEST(Symptoms, CaseAndOrderDoNotMatterAndSeveralAreListed) {
  EXPECT_EQ(names_like("ln V AT STUCK"), names_like("stuck at ln v"));
  Names stuck = names_like("stuck"), nan = names_like("NaN");
  EXPECT_EQ(stuck, (Names{"stuck_uniform", "stuck_unigram"}));
  EXPECT_EQ(nan, (Names{"nan_rising", "nan_sudden"}));
}

TEST(Symptoms, WhatMeansNothingFindsNothing) {
  for (const char* words : {"", "the", "foo", "croissant recipe with butter", "no_such_cause"})
    EXPECT_TRUE(names_like(words).empty()) << words;
}

TEST(Symptoms, TextFitsItsColumns) {
  for (const Symptom& s : symptom_table()) {
    std::stringstream text(symptom_text(s, doctor_table(), 80));
    for (std::string line; std::getline(text, line);) EXPECT_LE(line.size(), 80u) << line;
  }
  for (const DoctorEntry& e : doctor_table()) EXPECT_EQ(cause_text(e, 80).find(e.name), 0u);
}

TEST(Symptoms, TheDocumentIsTheTable) {
  const std::string path = PLUMB_SOURCE_DIR "/docs/manual.md", text = manual_markdown(doctor_table());
  if (std::getenv("PLUMB_WRITE_DOCS")) write_file_atomic(path, text);
  EXPECT_EQ(read_file(path), text)
      << "run PLUMB_WRITE_DOCS=1 build/dev/plumb_tests --gtest_filter='*Document*'";
}

}  // namespace
}  // namespace plumb::test
