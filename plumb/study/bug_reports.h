// Faults of real projects, each confirmed by its author, a maintainer or a merged fix, put into one of our models: does the
// diagnosis name what was wrong? And two that must not be blamed.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "plumb/data/text_corpus.h"
#include "plumb/model/components.h"

namespace plumb {

struct BugReport {
  std::string_view reference;           // the public thread
  std::string_view symptom;             // what was seen
  std::vector<std::string> set = {};    // how it is put into a model, as --set has it; empty: `elsewhere`
  std::vector<std::string> names = {};  // causes that are right; empty with `set`: none may be named
  std::string_view elsewhere = {};      // what finds it, where the diagnosis of one model cannot
};
std::vector<BugReport> bug_reports();

struct ReportAnswer {
  std::string verdict;
  std::vector<std::string> named;
  bool right = false;
};

/// Of one that has a model.
ReportAnswer answer_to(const BugReport&, const Components&, const Corpus&,
                       const std::function<bool()>& interrupted = {});

/// A table of all of them, Markdown. Runs them.
std::string bug_reports_markdown(const Components&, const Corpus&,
                                 const std::function<bool()>& interrupted = {});

}  // namespace plumb
