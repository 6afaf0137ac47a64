// The manual by what a person sees: symptoms, the causes that show them, and how to find the symptom that a few words mean.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "plumb/base/json.h"
#include "plumb/doctor/doctor.h"

namespace plumb {

struct Symptom {
  std::string_view name, title;  // "stuck_uniform", "the loss is stuck at ln V"
  std::string_view words;        // phrases that people use for it, with commas
  std::string_view sure;         // how to be sure that it is this symptom and not one beside it
  std::string_view first;        // what to look at first
};

/// In the order of the manual.
const std::vector<Symptom>& symptom_table();

/// The causes that show it, in the order in which to check them.
std::vector<DoctorEntry> causes_of(const Symptom&, const std::vector<DoctorEntry>&);

/// The symptoms that `words` may mean, as a person writes them: case, order and endings do not matter. Empty: none.
std::vector<Symptom> symptoms_like(std::string_view words);

/// For people, at most `width` columns.
std::string symptom_text(const Symptom&, const std::vector<DoctorEntry>&, std::size_t width);
Json symptom_json(const Symptom&, const std::vector<DoctorEntry>&);

/// One cause, for people, and of all of them, behind a table of symptoms, docs/manual.md.
std::string cause_text(const DoctorEntry&, std::size_t width);
Json cause_json(const DoctorEntry&);
std::string manual_markdown(const std::vector<DoctorEntry>&);

}  // namespace plumb
