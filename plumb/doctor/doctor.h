// The diagnosis: why does this run not train? It reads a trace (facts, series and settings) and nothing else: no model, no
// section [fault], no run's name. One cause a file; the table is generated from the file names, which are the ids of CONTRACT,
// "Causes the doctor knows".
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plumb/doctor/evidence.h"

namespace plumb {

/// One measurement beside what it was held against.
struct Clue {
  std::string metric;
  double value = 0, threshold = 0;
  std::int64_t step = 0;
};

/// Settings that mend it: ("train.lr", 1e-3).
using Patch = std::vector<std::pair<std::string, Json>>;

struct Finding {
  std::string cause = {};  // filled in by `diagnose`
  std::string where = {};  // "blocks.3.attn", "the head"; empty: nowhere in particular
  double confidence = 0;   // 0 to 1
  std::string why = {};    // what was seen, in one sentence
  std::vector<Clue> clues = {};
  Patch patch = {};                    // empty: the mend is in code, not in a setting
  std::optional<bool> confirmed = {};  // by re-running with the patch; empty: not tried, or not to be told
  std::string confirmation = {};       // what that showed
  std::int64_t first_step() const;
};

struct DoctorEntry {
  std::string_view name, what;  // the id; the fault in a few words
  std::string_view symptom;     // what a person sees
  std::string_view test;        // which measurement decides, and where its threshold comes from
  std::string_view alike;       // what looks the same, and how they are told apart
  std::string_view mend;
  std::string_view needs;  // facts and metrics; without them it is not looked for
  std::string_view
      shows;  // ids of plumb/report/symptoms.h, each with its place there: "spikes 1" is looked at first
  std::string_view explains;  // ids of what follows from it, which are not named then
  std::optional<Finding> (*look)(const Evidence&);
};
using Cause = DoctorEntry;
std::vector<DoctorEntry> doctor_table();

struct Diagnosis {
  std::string verdict;               // healthy, sick, undecided
  std::string because;               // of a verdict without findings
  std::vector<Finding> findings;     // most probable first
  std::vector<std::string> missing;  // what was not recorded: facts and metrics by name
};

Diagnosis diagnose(const Trace&, const std::vector<DoctorEntry>&);

/// CONTRACT, "JSON answers".
Json diagnosis_json(const Diagnosis&, const std::vector<DoctorEntry>&);
/// For people, at most `width` columns.
std::string diagnosis_text(const Diagnosis&, const std::vector<DoctorEntry>&, int width);
/// The names in a list such as `needs`: "a, b".
std::vector<std::string> names_in(std::string_view list);

// -- for the causes themselves

/// What the losses say of a run, whoever wrote it.
struct Course {
  bool known = false;                    // enough steps to say anything
  bool stuck = false;                    // no better than a model that knows how often each token comes
  bool diverged = false;                 // ends far above its best
  double last = 0, best = 0, first = 0;  // means over a window
  std::int64_t steps = 0, best_step = 0;
};
Course course_of(const Evidence&);

/// "blocks.3.attn" of sub-layer 6.
std::string sublayer(std::size_t i);
/// How large scores are, over q.k / sqrt(d_head): 1. Empty where that is not what the config asks for, or not
/// measured.
std::optional<double> score_scale_of(const Evidence&);
/// The rms of the matrices that do not write to the stream over the std that init draws them with; empty where the
/// scheme has no std.
std::optional<double> drawn_over_asked(const Evidence&);
/// The middle of the finite ones; NaN where there is none.
double middle(std::vector<double>);

}  // namespace plumb
