#include "plumb/study/explain.h"

#include <fmt/format.h>

#include <algorithm>

#include "plumb/base/text.h"
#include "plumb/base/wrap.h"
#include "plumb/config/config.h"

namespace plumb {
namespace {

// "model.norm" -> "norm", "model.ffn.kind" -> "ffn", "init.scheme" -> "init", "train.optimizer" -> "optim".
std::string family_of(std::string_view key) {
  if (key == "model.ffn.kind") return "ffn";
  if (key == "model.attention.kind") return "attention";
  if (key == "init.scheme") return "init";
  if (key == "train.optimizer") return "optim";
  if (key == "model.weight_param") return "weight";
  return std::string(key.substr(key.rfind('.') + 1));
}

std::vector<std::string> split(std::string_view list) {
  std::vector<std::string> all;
  for (std::size_t at = 0; at < list.size();) {
    const std::size_t comma = std::min(list.find(", ", at), list.size());
    all.emplace_back(list.substr(at, comma - at));
    at = comma + 2;
  }
  return all;
}

}  // namespace

std::vector<Explanation> explanations(const Components& c) {
  std::vector<Explanation> all;
  each_table(c, [&](std::string_view key, std::string_view, const auto& table) {
    for (const auto& e : table) {
      Explanation x{.family = family_of(key), .name = std::string(e.name), .key = std::string(key)};
      x.purpose = e.purpose, x.formula = e.formula, x.paper = e.paper;
      if constexpr (requires { e.pitfalls; }) x.pitfalls = e.pitfalls;
      if constexpr (requires { e.fields; }) x.fields = split(e.fields);
      all.push_back(std::move(x));
    }
  });
  return all;
}

std::vector<std::string> family_names(const Components& c) {
  std::vector<std::string> all;
  each_table(c, [&](std::string_view key, std::string_view, const auto&) { all.push_back(family_of(key)); });
  return all;
}

std::string explanation_text(const Explanation& x, std::size_t width) {
  constexpr std::size_t indent = 12;
  std::string out = fmt::format("{}: {} = \"{}\"\n\n", x.name, x.key, x.name);
  const auto row = [&](const char* what, const std::string& text) {
    if (!text.empty()) out += fmt::format("{:<{}}{}\n", what, indent, wrapped(text, width, indent));
  };
  row("what for", x.purpose);
  row("formula", x.formula);
  row("watch out", x.pitfalls);
  row("paper", x.paper);
  for (std::size_t i = 0; i < x.fields.size(); ++i)
    row(i == 0 ? "keys" : "", x.fields[i] + ": " + config_field(x.fields[i], x.name).help);
  for (std::size_t i = 0; i < x.example.size(); ++i)
    out += fmt::format("{:<{}}{}\n", i == 0 ? "example" : "", indent, x.example[i]);
  return out;
}

std::string explanation_markdown(const Explanation& x) {
  std::string out = fmt::format("## {}\n\n{}\n\n`{} = \"{}\"`\n\n- **Formula** {}\n", x.name, x.purpose,
                                x.key, x.name, x.formula);
  if (!x.pitfalls.empty()) out += "- **Watch out** " + x.pitfalls + "\n";
  if (!x.paper.empty()) out += "- **Paper** " + x.paper + "\n";
  for (const std::string& f : x.fields) out += fmt::format("- `{}` {}\n", f, config_field(f, x.name).help);
  out += "\n```\n" + join(x.example, "\n") + "\n```\n";
  return out;
}

Json explanation_json(const Explanation& x) {
  Json j = Json::object();
  j["family"] = x.family, j["name"] = x.name, j["key"] = x.key, j["purpose"] = x.purpose,
  j["formula"] = x.formula;
  j["paper"] = x.paper, j["pitfalls"] = x.pitfalls;
  Json fields = Json::array(), example = Json::array();
  for (const std::string& f : x.fields) fields.push_back(f);
  for (const std::string& line : x.example) example.push_back(line);
  j["fields"] = std::move(fields), j["example"] = std::move(example);
  return j;
}

std::string family_markdown(const Components& c, const std::string& family) {
  std::string out =
      "# " + family +
      "\n\nGenerated from the component table, the examples by running the components: `PLUMB_WRITE_DOCS=1 "
      "build/dev/plumb_tests --gtest_filter='*Document*'`; do not edit. The same in a terminal: `plumb "
      "explain " +
      family + "`.\n";
  for (Explanation& x : explanations(c)) {
    if (x.family != family) continue;
    x.example = worked_example(c, x);
    out += "\n" + explanation_markdown(x);
  }
  return out;
}

}  // namespace plumb
