// Scalars by step, as other trainers log them, and the trace that they amount to.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plumb/trace/reader.h"

namespace plumb {

struct Scalar {
  std::int64_t step = 0;
  std::string name;  // as it was logged: "train/loss"
  double value = 0;
};

/// The metric of docs/trace.md that a logged name means: "loss" for "train/loss", "Loss/train",
/// "training_loss"; "step" for "global_step", "iter". The name itself when it means none of them. Case, and
/// which of / . _ - or a space joins the words, do not matter.
std::string metric_of(std::string_view logged);

/// One step row a step, in order of steps; of a name that comes twice at a step the last value counts. Where
/// the steps go back (a run that went on from an earlier checkpoint) the older rows from there on are dropped
/// and the warning says so.
Trace trace_of_scalars(const std::vector<Scalar>&, const std::string& producer);

}  // namespace plumb
