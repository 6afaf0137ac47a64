#include "plumb/report/symptoms.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include "plumb/base/text.h"
#include "plumb/base/wrap.h"

namespace plumb {
namespace {

// Its place among the causes of `symptom`; 0: it does not show it.
int place_of(const DoctorEntry& cause, std::string_view symptom) {
  for (const std::string& shown : names_in(cause.shows)) {
    const auto blank = shown.rfind(' ');
    if (blank == std::string::npos || shown.substr(0, blank) != symptom) continue;
    int place = 0;
    std::from_chars(shown.data() + blank + 1, shown.data() + shown.size(), place);
    return place;
  }
  return 0;
}

// Words that say nothing of which symptom it is.
bool is_filler(std::string_view w) {
  constexpr std::string_view fillers[] = {"the", "a",    "an", "is", "are",  "it",   "its", "my",
                                          "at",  "of",   "to", "in", "on",   "and",  "or",  "i",
                                          "get", "with", "as", "be", "that", "than", "the", "by",
                                          "for", "from", "me", "we", "loss", "why",  "very"};
  return std::ranges::find(fillers, w) != std::end(fillers);
}

// "spikes", "spiked" and "spiking" are one word.
std::string stem(std::string w) {
  for (const std::string_view end : {"s", "ing", "ed", "ly", "e"})
    if (w.size() >= end.size() + 3 && w.ends_with(end)) w.erase(w.size() - end.size());
  if (w.size() > 3 && w[w.size() - 1] == w[w.size() - 2]) w.pop_back();
  return w;
}

std::set<std::string> words_of(std::string_view text) {
  std::set<std::string> all;
  std::string word;
  const auto end = [&] {
    if (!word.empty() && !is_filler(word)) all.insert(stem(word));
    word.clear();
  };
  for (const char c : text) {
    const bool upper = c >= 'A' && c <= 'Z';
    const bool letter = upper || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (c & 0x80) != 0;
    if (letter)
      word += upper ? static_cast<char>(c - 'A' + 'a') : c;
    else
      end();
  }
  end();
  return all;
}

std::set<std::string> vocabulary_of(const Symptom& s) {
  std::set<std::string> all = words_of(s.title);
  all.merge(words_of(s.words));
  all.merge(words_of(s.name));
  return all;
}

std::vector<std::pair<std::string_view, std::string_view>> parts_of(const DoctorEntry& c) {
  return {{"what one sees", c.symptom}, {"how it is found", c.test}, {"what looks alike", c.alike},
          {"what to do", c.mend},       {"what it needs", c.needs},  {"what follows from it", c.explains}};
}

std::vector<Symptom> symptoms_of(const DoctorEntry& cause) {
  std::vector<Symptom> all;
  for (const Symptom& s : symptom_table())
    if (place_of(cause, s.name)) all.push_back(s);
  return all;
}

}  // namespace

std::vector<DoctorEntry> causes_of(const Symptom& s, const std::vector<DoctorEntry>& table) {
  std::vector<DoctorEntry> all;
  for (const DoctorEntry& cause : table)
    if (place_of(cause, s.name)) all.push_back(cause);
  std::ranges::stable_sort(all, {}, [&](const DoctorEntry& c) { return place_of(c, s.name); });
  return all;
}

std::vector<Symptom> symptoms_like(std::string_view words) {
  // A word counts the more, the fewer symptoms it is said of; one that is said of none counts against a match.
  constexpr double near_best = 0.8, enough = 0.5;
  const auto& table = symptom_table();
  std::map<std::string, int> said_of;
  for (const Symptom& s : table)
    for (const std::string& w : vocabulary_of(s)) ++said_of[w];
  const std::set<std::string> asked = words_of(words);
  std::vector<double> score(table.size(), 0);
  double best = 0;
  std::size_t known = 0;
  for (const std::string& w : asked) known += said_of.contains(w) ? 1 : 0;
  for (std::size_t i = 0; i < table.size(); ++i) {
    const auto vocabulary = vocabulary_of(table[i]);
    for (const std::string& w : asked)
      if (vocabulary.contains(w)) score[i] += 1.0 / said_of[w];
    best = std::max(best, score[i]);
  }
  std::vector<Symptom> all;
  if (static_cast<double>(known) < enough * static_cast<double>(asked.size()) || best == 0) return all;
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < table.size(); ++i)
    if (score[i] >= near_best * best) order.push_back(i);
  std::ranges::stable_sort(order, std::greater(), [&](std::size_t i) { return score[i]; });
  for (const std::size_t i : order) all.push_back(table[i]);
  return all;
}

std::string symptom_text(const Symptom& s, const std::vector<DoctorEntry>& table, std::size_t width) {
  std::string out = fmt::format("{}: {}\n", s.name, s.title);
  out += "\nhow to be sure\n" + wrapped_behind("  ", s.sure, width) + "\n";
  out += "\nwhat to look at first\n" + wrapped_behind("  ", s.first, width) + "\n";
  out += "\nwhat it may be, in the order in which to check\n";
  const auto causes = causes_of(s, table);
  for (std::size_t i = 0; i < causes.size(); ++i)
    out +=
        wrapped_behind(fmt::format("  {:>2}. {:<26} ", i + 1, causes[i].name), causes[i].what, width) + "\n";
  return out + "\n" +
         wrapped(
             fmt::format("`plumb doctor CONFIG|RUN` looks for them all; `plumb explain {}` says more of one.",
                         causes.front().name),
             width, 0) +
         "\n";
}

Json symptom_json(const Symptom& s, const std::vector<DoctorEntry>& table) {
  Json j = Json::object(), causes = Json::array();
  for (const DoctorEntry& c : causes_of(s, table)) causes.push_back(std::string(c.name));
  j["name"] = std::string(s.name), j["title"] = std::string(s.title);
  j["sure"] = std::string(s.sure), j["first"] = std::string(s.first);
  j["causes"] = causes;
  return j;
}

std::string cause_text(const DoctorEntry& c, std::size_t width) {
  std::string out = fmt::format("{}: {}\n", c.name, c.what);
  for (const auto& [title, text] : parts_of(c))
    if (!text.empty()) out += fmt::format("\n{}\n{}\n", title, wrapped_behind("  ", text, width));
  out += "\nsymptoms that it shows\n";
  for (const Symptom& s : symptoms_of(c))
    out += wrapped_behind(fmt::format("  {:<18} ", s.name), s.title, width) + "\n";
  return out;
}

Json cause_json(const DoctorEntry& c) {
  Json j = Json::object(), symptoms = Json::array();
  for (const Symptom& s : symptoms_of(c)) symptoms.push_back(std::string(s.name));
  j["name"] = std::string(c.name), j["what"] = std::string(c.what), j["symptom"] = std::string(c.symptom);
  j["test"] = std::string(c.test), j["alike"] = std::string(c.alike), j["mend"] = std::string(c.mend);
  j["needs"] = Json(names_in(c.needs)), j["explains"] = Json(names_in(c.explains));
  j["shows"] = symptoms;
  return j;
}

std::string manual_markdown(const std::vector<DoctorEntry>& table) {
  std::string out =
      "# Why it does not train\n\nFirst by what one sees, then by cause. This page is made from the table of "
      "symptoms "
      "(`plumb/report/symptom_table.cpp`) and the causes (`plumb/doctor/`); `./run explain NAME` prints one "
      "of either, "
      "and `./run explain \"the loss is stuck\"` finds a symptom by its words.\n\n"
      "## By symptom\n\nCauses stand in the order in which to check them.\n\n"
      "| what one sees | how to be sure | what to look at first | what it may be |\n| --- | --- | --- | --- "
      "|\n";
  for (const Symptom& s : symptom_table()) {
    std::vector<std::string> causes;
    for (const DoctorEntry& c : causes_of(s, table)) causes.push_back(fmt::format("[{0}](#{0})", c.name));
    out += fmt::format("| **{}** (`{}`) | {} | {} | {} |\n", s.title, s.name, s.sure, s.first, join(causes));
  }
  out +=
      "\n## By cause\n\nThe causes that `plumb doctor` knows, each with what one sees, the measurement that "
      "decides, what "
      "looks alike, and what to do.\n";
  for (const DoctorEntry& c : table) {
    out += fmt::format("\n### {}\n\n{}.\n\n| | |\n| --- | --- |\n", c.name, c.what);
    for (const auto& [title, text] : parts_of(c))
      if (!text.empty()) out += fmt::format("| {} | {} |\n", title, text);
  }
  return out;
}

}  // namespace plumb
