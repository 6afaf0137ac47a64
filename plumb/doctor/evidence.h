// What a diagnosis may look at: facts, series and settings of one trace. What was made wrong on purpose is not among them.
#pragma once
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plumb/trace/reader.h"

namespace plumb {

/// The values of a metric in order of steps, those that are not finite included.
struct Series {
  std::vector<std::int64_t> steps;
  std::vector<double> values;
  bool empty() const { return values.empty(); }
  double last() const { return values.back(); }
};

class Evidence {
 public:
  explicit Evidence(const Trace& trace) : t_(trace) {}

  /// A fact; empty where it is absent, "unknown" or of another kind.
  std::optional<bool> flag(std::string_view fact) const {
    const Json* j = t_.fact(fact);
    return j && j->is_bool() ? std::optional(j->as_bool("")) : std::nullopt;
  }
  std::optional<double> number(std::string_view fact) const {
    const Json* j = t_.fact(fact);
    return j && j->is_number() ? std::optional(j->as_double("")) : std::nullopt;
  }
  std::optional<std::string> word(std::string_view fact) const {
    const Json* j = t_.fact(fact);
    return j && j->is_string() && j->as_string("") != "unknown" ? std::optional(j->as_string(""))
                                                                : std::nullopt;
  }
  /// One number each of several places (blocks, or sub-layers in their order); empty: none. NaN: not known there.
  std::vector<double> numbers(std::string_view fact) const {
    std::vector<double> all;
    if (const Json* j = t_.fact(fact); j && j->is_array())
      for (const Json& v : j->as_array(""))
        all.push_back(v.is_number() || v.is_string() ? v.as_double(fact) : NAN);
    return all;
  }
  std::vector<std::string> words(std::string_view fact) const {
    std::vector<std::string> all;
    if (const Json* j = t_.fact(fact); j && j->is_array())
      for (const Json& v : j->as_array("")) all.push_back(v.is_string() ? v.as_string("") : std::string());
    return all;
  }
  /// A number of an object: "moves_by_role", "q".
  std::optional<double> number(std::string_view fact, std::string_view key) const {
    const Json* j = t_.fact(fact);
    const Json* v = j ? j->find(key) : nullptr;
    return v && v->is_number() ? std::optional(v->as_double("")) : std::nullopt;
  }
  bool has(std::string_view fact) const { return t_.fact(fact) != nullptr; }

  /// What the run's config says: "train.lr". nullptr: nothing, or what was made wrong on purpose.
  const Json* setting(std::string_view path) const {
    if (path.starts_with("fault")) return nullptr;
    const Json* j = &t_.header.config;
    while (j && !path.empty()) {
      const auto dot = path.find('.');
      j = j->find(path.substr(0, dot));
      path = dot == std::string_view::npos ? std::string_view() : path.substr(dot + 1);
    }
    return j;
  }
  std::string text(std::string_view path) const {
    const Json* j = setting(path);
    return j && j->is_string() ? j->as_string("") : std::string();
  }
  std::optional<double> value(std::string_view path) const {
    const Json* j = setting(path);
    return j && j->is_number() ? std::optional(j->as_double("")) : std::nullopt;
  }
  /// The norm or the placement: the config's, else the fact's.
  std::string said(std::string_view path, std::string_view fact) const {
    const std::string s = text(path);
    return s.empty() ? word(fact).value_or("") : s;
  }
  /// Does its norm take the scale of its input away?
  bool has_scaling_norm() const {
    const std::string n = said("model.norm", "norm");
    return n == "layer" || n == "rms" || n == "batch" || n == "group" || n == "instance";
  }

  Series series(std::string_view metric) const {
    Series s;
    for (const StepRow& row : t_.steps)
      if (const double* v = row.find(metric)) s.steps.push_back(row.step), s.values.push_back(*v);
    return s;
  }
  /// Of the last row that has it (or the first one): a number for each block.
  std::vector<double> layers(std::string_view metric, bool first = false) const {
    const std::vector<double>* found = nullptr;
    for (const StepRow& row : t_.steps)
      if (const auto* v = row.find_layers(metric); v && !(first && found)) found = v;
    return found ? *found : std::vector<double>();
  }
  /// The step of the row that `layers` reads.
  std::int64_t layers_step(std::string_view metric, bool first = false) const {
    std::int64_t step = -1;
    for (const StepRow& row : t_.steps)
      if (row.find_layers(metric) && !(first && step >= 0)) step = row.step;
    return step;
  }
  const Trace& trace() const { return t_; }

 private:
  const Trace& t_;
};

}  // namespace plumb
