// A model on a fixed set of held-out sequences: the loss of each, whole and with named values changed on the
// way.
#pragma once
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "plumb/study/patient.h"

namespace plumb {

/// Of a named value, over the held-out positions that have a target: by column.
struct ColumnStats {
  std::vector<double> mean, mean_abs, mean_square, most;
  double rms() const;
};

/// What takes the place of a named value.
struct Replace {
  std::string point;
  std::int64_t first = 0, n = 0;    // columns; n = 0: all
  std::span<const double> by = {};  // a value a column of the point; empty: 0
  std::string from = {};  // not empty: the rows of this earlier point, summed where it has several lanes
};

class HeldOut {
 public:
  /// `n` sequences, spread evenly over the validation split (all of them where it has no more). `points` are
  /// those that can be looked at or replaced; those that the model lacks are left out. `spec`: of the same
  /// parameters as the patient's. Borrows its arguments. bad_input where no sequence has a target.
  HeldOut(Patient&, const DecoderSpec& spec, std::int64_t n, const std::set<std::string>& points,
          ThreadPool&);
  HeldOut(const HeldOut&) = delete;  // its plan points to its hook
  HeldOut& operator=(const HeldOut&) = delete;
  ~HeldOut();

  /// Targets of each sequence; and of all.
  const std::vector<double>& targets() const { return targets_; }
  double n_target() const;
  bool has(const std::string& point) const;

  /// The loss of each sequence, in nats, summed over its targets.
  std::vector<double> losses(std::span<const Replace> = {});
  /// Mean loss a target of such sums.
  double mean(std::span<const double> sums) const;
  /// Of every point, in a pass without changes.
  std::map<std::string, ColumnStats> look();
  /// The gradient of the mean loss of the same sequences, in the layout of the patient's parameters. The
  /// model is in training mode (norms of batches use the batch), without dropout and without what else is
  /// minimised beside the loss.
  std::vector<double> gradient();

 private:
  class Watcher;
  Patient& patient_;
  DecoderSpec spec_;
  std::int64_t batch_;
  ThreadPool& pool_;
  std::unique_ptr<Watcher> watcher_;
  std::vector<Hook<float>*> hooks_;
  std::vector<std::int32_t> x_, y_;  // of all sequences, padded to whole calls
  std::vector<double> targets_;
  std::unique_ptr<Plan<float>> plan_;
};

}  // namespace plumb
