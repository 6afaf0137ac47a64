// What the component tables say of themselves, with a worked example that is computed when it is asked for.
#pragma once
#include <string>
#include <vector>

#include "plumb/base/json.h"
#include "plumb/model/components.h"

namespace plumb {

struct Explanation {
  std::string family, name;  // "norm", "rms"
  std::string key;           // what a config calls it by: model.norm = "rms"
  std::string purpose = {}, formula = {}, paper = {}, pitfalls = {};
  std::vector<std::string> fields = {};   // config keys of its own
  std::vector<std::string> example = {};  // lines
};

/// Every entry of every table, in the order of the tables, without examples.
std::vector<Explanation> explanations(const Components&);

/// The lines of an entry's example. Nothing in them is stored: the component runs.
std::vector<std::string> worked_example(const Components&, const Explanation&);

/// For people, at most `width` columns beside the example; Markdown; {"family": …, "name": …, …}.
std::string explanation_text(const Explanation&, std::size_t width = 100);
std::string explanation_markdown(const Explanation&);
Json explanation_json(const Explanation&);

/// docs/components/<family>.md.
std::string family_markdown(const Components&, const std::string& family);

/// The families, in order.
std::vector<std::string> family_names(const Components&);

}  // namespace plumb
