// plumb explain: what a component is, and what the doctor means by a cause.
#include <fmt/format.h>

#include <algorithm>

#include "plumb/base/error.h"
#include "plumb/base/text.h"
#include "plumb/base/wrap.h"
#include "plumb/cli/flags.h"
#include "plumb/cli/live.h"
#include "plumb/doctor/doctor.h"
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
}

}  // namespace

int explain_command(const Flags& f) {
  const Components c;
  const std::vector<Cause> causes = doctor_table();
  std::vector<Explanation> all = explanations(c), wanted;
  std::vector<Cause> wanted_causes;
  if (f.args.empty() && !f.json) {
    list(all, causes);
    return 0;
  }
  for (const std::string& name : f.args) {
    bool found = false;
    for (const Explanation& x : all)
      if (x.name == name || x.family == name || x.family + "." + x.name == name)
        wanted.push_back(x), found = true;
    for (const Cause& cause : causes)
      if (cause.name == name) wanted_causes.push_back(cause), found = true;
    if (found) continue;
    std::vector<std::string> known = family_names(c);
    for (const Cause& cause : causes) known.emplace_back(cause.name);
    for (const Explanation& x : all)
      if (std::ranges::find(known, x.name) == known.end()) known.push_back(x.name);
    const auto near = nearest_name(name, known);
    bad_input("no component or cause is called '{}'{}; `plumb explain` lists them", name,
              near ? fmt::format(" (did you mean '{}'?)", *near) : std::string());
  }
  if (f.args.empty()) wanted = std::move(all);
  for (Explanation& x : wanted) x.example = worked_example(c, x);
  if (f.json) {
    Json entries = Json::array(), j = Json::object();
    for (const Explanation& x : wanted) entries.push_back(explanation_json(x));
    j["entries"] = std::move(entries);
    if (!wanted_causes.empty()) {
      Json described = Json::array();
      for (const Cause& cause : wanted_causes) described.push_back(cause_json(cause));
      j["causes"] = std::move(described);
    }
    fmt::print("{}\n", j.dump());
    return 0;
  }
  for (std::size_t i = 0; i < wanted.size(); ++i)
    fmt::print("{}{}", i ? "\n" : "", explanation_text(wanted[i], terminal_width()));
  for (std::size_t i = 0; i < wanted_causes.size(); ++i)
    fmt::print("{}{}", i + wanted.size() ? "\n" : "",
               cause_text(wanted_causes[i], static_cast<int>(terminal_width())));
  return 0;
}

}  // namespace plumb::cli
