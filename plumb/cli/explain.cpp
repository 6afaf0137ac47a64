// plumb explain: what a component is, what the doctor means by a cause, and what a symptom may come from.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "plumb/base/error.h"
#include "plumb/base/text.h"
#include "plumb/base/wrap.h"
#include "plumb/cli/flags.h"
#include "plumb/cli/live.h"
#include "plumb/cli/say.h"
#include "plumb/doctor/doctor.h"
#include "plumb/report/symptoms.h"
#include "plumb/study/explain.h"

namespace plumb::cli {
namespace {

// Without a name: what there is.
void list(const std::vector<Explanation>& all, const std::vector<Cause>& causes) {
  std::string family;
  for (const Explanation& x : all) {
    if (x.family != family) fmt::print("{}{}  ({} = …)\n", family.empty() ? "" : "\n", x.family, x.key);
    family = x.family;
    fmt::print("{}\n", wrapped_behind(fmt::format("  {:<18} ", x.name), x.purpose, terminal_width()));
  }
  fmt::print("\ncauses  (what `plumb doctor` names)\n");
  for (const Cause& cause : causes)
    fmt::print("{}\n", wrapped_behind(fmt::format("  {:<26} ", cause.name), cause.what, terminal_width()));
  fmt::print("\nsymptoms  (`plumb explain stuck at ln V` finds them by their words)\n");
  for (const Symptom& s : symptom_table())
    fmt::print("{}\n", wrapped_behind(fmt::format("  {:<26} ", s.name), s.title, terminal_width()));
}

/// What the names of a command line stand for.
struct Asked {
  std::vector<Explanation> entries;
  std::vector<Cause> causes;
  std::vector<Symptom> symptoms;
  std::string unknown;  // the first name that stands for nothing
};

Asked looked_up(const std::vector<std::string>& names, const std::vector<Explanation>& all,
                const std::vector<Cause>& causes) {
  Asked asked;
  for (const std::string& name : names) {
    bool found = false;
    for (const Explanation& x : all)
      if (x.name == name || x.family == name || x.family + "." + x.name == name)
        asked.entries.push_back(x), found = true;
    for (const Cause& cause : causes)
      if (cause.name == name) asked.causes.push_back(cause), found = true;
    for (const Symptom& s : symptom_table())
      if (s.name == name) asked.symptoms.push_back(s), found = true;
    if (!found && asked.unknown.empty()) asked.unknown = name;
  }
  return asked;
}

// One in full; of several what tells them apart.
void print_symptoms(const std::vector<Symptom>& symptoms, const std::vector<Cause>& causes) {
  if (symptoms.size() == 1) fmt::print("{}", symptom_text(symptoms.front(), causes, terminal_width()));
  if (symptoms.size() <= 1) return;
  fmt::print("It may be one of {}:\n", symptoms.size());
  for (const Symptom& s : symptoms) {
    fmt::print("\n{}: {}\n", s.name, s.title);
    fmt::print("{}\n", wrapped_behind("  ", s.sure, terminal_width()));
  }
  fmt::print("\n{}\n",
             as_called(fmt::format("`plumb explain {}` says what it may come from.", symptoms.front().name)));
}

}  // namespace

int explain_command(const Flags& f) {
  const Components c;
  const std::vector<Cause> causes = doctor_table();
  std::vector<Explanation> all = explanations(c);
  if (f.args.empty() && !f.json) {
    list(all, causes);
    return 0;
  }
  Asked asked = looked_up(f.args, all, causes);
  if (!asked.unknown.empty()) {
    // Not names then, but what a person sees. A name with a slip in it has its underscore still.
    const std::string words = join(f.args, " ");
    const bool is_name = f.args.size() == 1 && words.find('_') != std::string::npos;
    std::vector<Symptom> like = is_name ? std::vector<Symptom>() : symptoms_like(words);
    if (like.empty()) {
      std::vector<std::string> known = family_names(c);
      for (const Cause& cause : causes) known.emplace_back(cause.name);
      for (const Symptom& s : symptom_table()) known.emplace_back(s.name);
      for (const Explanation& x : all)
        if (std::ranges::find(known, x.name) == known.end()) known.push_back(x.name);
      const auto near = nearest_name(asked.unknown, known);
      bad_input("no component, cause or symptom is called '{}'{}; `plumb explain` lists them", asked.unknown,
                near ? fmt::format(" (did you mean '{}'?)", *near) : std::string());
    }
    asked = {{}, {}, std::move(like), {}};
  }
  if (f.args.empty()) asked.entries = std::move(all), asked.symptoms = symptom_table();
  for (Explanation& x : asked.entries) x.example = worked_example(c, x);
  if (f.json) {
    Json entries = Json::array(), j = Json::object();
    for (const Explanation& x : asked.entries) entries.push_back(explanation_json(x));
    j["entries"] = std::move(entries);
    if (!asked.causes.empty()) {
      Json described = Json::array();
      for (const Cause& cause : asked.causes) described.push_back(cause_json(cause));
      j["causes"] = std::move(described);
    }
    if (!asked.symptoms.empty()) {
      Json described = Json::array();
      for (const Symptom& s : asked.symptoms) described.push_back(symptom_json(s, causes));
      j["symptoms"] = std::move(described);
    }
    fmt::print("{}\n", j.dump());
    return 0;
  }
  bool first = true;
  const auto apart = [&] { return std::exchange(first, false) ? "" : "\n"; };
  for (const Explanation& x : asked.entries)
    fmt::print("{}{}", apart(), explanation_text(x, terminal_width()));
  for (const Cause& cause : asked.causes) fmt::print("{}{}", apart(), cause_text(cause, terminal_width()));
  if (!asked.symptoms.empty()) fmt::print("{}", apart());
  print_symptoms(asked.symptoms, causes);
  return 0;
}

}  // namespace plumb::cli
