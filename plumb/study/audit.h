// What a model and its run do before they train, found by trying: facts and the row of step 0, as a trace. A
// config's word is never taken for it: a norm is given larger inputs, a token is changed, an optimiser is
// given gradients that are known. The diagnosis reads the result, and so do people: docs/manual.md lists the
// facts.
#pragma once
#include <functional>

#include "plumb/study/patient.h"
#include "plumb/trace/reader.h"

namespace plumb {

struct AuditOptions {
  bool resume = true;  // train a few steps, twice, once interrupted
  bool ramp = true;    // a short training with a learning rate that grows
  std::function<void(std::string_view doing)> progress = {};
  std::function<bool()> interrupted = {};  // true: Error with exit status 130
};

/// The header's config is the resolved one without its faults.
Trace audit(const Config&, const Components&, const Corpus&, const AuditOptions& = {});

/// Adds a fact.
class FactSheet {
 public:
  explicit FactSheet(Trace& t) : t_(t) {}
  void add(std::string_view name, Json value) { t_.facts.push_back({std::string(name), std::move(value)}); }

 private:
  Trace& t_;
};

// One file each. They may pass batches through the patient, and leave its parameters as they were.
void audit_paths(Patient&, FactSheet&);
void audit_norms(Patient&, FactSheet&);
void audit_attention(Patient&, FactSheet&);
void audit_positions(Patient&, FactSheet&);
void audit_ends(Patient&, const Seen&, FactSheet&);
void audit_weights(Patient&, FactSheet&);
void audit_update(Patient&, FactSheet&);
void audit_data(Patient&, FactSheet&);
void audit_resume(Patient&, FactSheet&, const std::function<bool()>& interrupted);
void audit_ramp(Patient&, FactSheet&, const std::function<bool()>& interrupted);

// -- for them

/// Root mean square of all elements; 0 of none.
double rms(const Grid<float>&);
/// The same of a view.
double rms(View<const float>);
/// "blocks.3" + end.
std::string block_point(std::int64_t layer, std::string_view end);
/// The row at `i`.
inline std::span<const float> row_of(const Grid<float>& g, std::int64_t i) {
  return std::span(g.data).subspan(static_cast<std::size_t>(i * g.cols), static_cast<std::size_t>(g.cols));
}

}  // namespace plumb
