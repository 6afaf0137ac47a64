// Probes: hooks that turn what they see into numbers of a trace row. One probe a file.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "plumb/kernel/measure.h"
#include "plumb/plan/hook.h"
#include "plumb/spec/spec.h"
#include "plumb/trace/trace.h"

namespace plumb {

struct Probe : Hook<float> {
  /// Adds what was measured in the last call of the plan.
  virtual void write(StepRow& row) const = 0;
};

/// How a probe introduces itself; the table is generated from the file names.
struct ProbeEntry {
  std::string_view name, measures;
  std::unique_ptr<Probe> (*make)(const DecoderSpec&);
};
std::vector<ProbeEntry> probe_table();

/// Partial sums by shard and layer, joined in shard order: the same bits whichever thread ran which shard.
class LayerMoments {
 public:
  explicit LayerMoments(std::int64_t n_layer) : n_layer_(static_cast<std::size_t>(n_layer)) {}
  void begin(int n_shard) { parts_.assign(static_cast<std::size_t>(n_shard) * n_layer_, {}); }
  void add(int shard, std::size_t layer, View<const float> v);
  void merge();
  /// Population standard deviation and mean over all elements of the call; NaN where nothing was seen.
  std::vector<double> std() const;
  std::vector<double> mean() const;

 private:
  std::size_t n_layer_;
  std::vector<Moments> parts_, total_;
};

/// The layer of a point "blocks.{i}<suffix>", or -1.
int layer_of(std::string_view point, std::string_view suffix);

}  // namespace plumb
