// Backward through chosen paths. Every sub-layer offers a gradient two ways on, through its branch or around it; here
// each can be shut.
#pragma once
#include <vector>

#include "plumb/study/patient.h"

namespace plumb {

/// A second plan of the patient's model, on its parameters and its batch, whose skips are values of their own: elsewhere
/// the stream's gradient is the sum over skip and branch, and nothing tells them apart. Auxiliary losses are left out:
/// their gradients enter inside a branch, whatever path is open. Forward is that of the model.
class PathPlan {
 public:
  explicit PathPlan(Patient&);
  PathPlan(const PathPlan&) = delete;
  PathPlan& operator=(const PathPlan&) = delete;

  /// Residual branches of the stack: two a block, one where both of a block read the same stream.
  std::int64_t branches() const { return static_cast<std::int64_t>(around_.size()); }
  /// The gradient of the batch's loss at the first block's input (rows of the batch, width of the stream), through
  /// branch i only where `through[i]`, around it only where not. Over all 2^branches() choices they sum to `whole`.
  Grid<float> gradient(const std::vector<bool>& through);
  /// … every way open.
  Grid<float> whole() { return gradient_without({}); }

 private:
  using Points = std::vector<std::string>;
  Grid<float> gradient_without(const Points& shut);

  class Gate final : public Hook<float> {
   public:
    bool wants(std::string_view point, Dir) const override;
    bool rewrites() const override { return true; }
    void begin(int n_shard) override { parts.assign(static_cast<std::size_t>(n_shard), {}); }
    void at(std::string_view point, Dir, View<float>, int shard) override;
    Points shut;
    std::vector<Grid<float>> parts;
  };
  Patient& p_;
  std::vector<Points> around_, into_;  // of each branch: what the way around it, and into it, passes
  Gate gate_;
  std::vector<Hook<float>*> hooks_{&gate_};
  ThreadPool pool_{1};
  Plan<float> plan_;
};

}  // namespace plumb
