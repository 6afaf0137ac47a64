// Scalars by step, as other trainers log them, and the trace that they amount to.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "plumb/trace/reader.h"

namespace plumb {

/// The metric of docs/trace.md that a logged name means: "loss" for "train/loss", "Loss/train",
/// "training_loss"; "step" for "global_step", "iter". The name itself when it means none of them. Case, and
/// which of / . _ - or a space joins the words, do not matter.
std::string metric_of(std::string_view logged);

/// What was logged, in the order in which it was.
class ScalarLog {
 public:
  /// The number of a name: its own, and small.
  std::size_t id(std::string_view name);
  /// A step below 0 is counted and left out.
  void add(std::int64_t step, std::size_t id, double value);
  void warn(const std::string& what);
  bool empty() const { return scalars_.empty(); }

  /// One step row a step, in order of steps. Of a name that comes twice at a step the last value counts. Of
  /// several names that mean one metric the most usual is taken and the others are called "… (logged)". Where
  /// the steps of the loss go back (a run that went on from an earlier checkpoint) what was logged before for
  /// the steps from there on is left out. The trace's warning says all of this, and what `warn` was told.
  Trace trace(const std::string& producer) const;

 private:
  struct Scalar {
    std::int64_t step;
    std::size_t id;
    double value;
  };
  std::vector<std::string> names_;
  std::unordered_map<std::string, std::size_t> ids_;
  std::vector<Scalar> scalars_;
  std::string warning_;
  std::size_t before_zero_ = 0;
};

}  // namespace plumb
