// The loss over the whole validation split.
#pragma once
#include <array>
#include <functional>

#include "plumb/model/components.h"
#include "plumb/plan/plan.h"
#include "plumb/train/feed.h"

namespace plumb {

class Validation {
 public:
  /// Rows of `feed.block_size()` tokens, about 4,096 tokens a call. Borrows all of its arguments. `mode` is
  /// Mode::eval but for a run that is made to evaluate wrongly.
  Validation(const DecoderSpec& spec, const Components&, ParamStore<float>& store, const Feed& feed,
             ThreadPool& pool, Mode mode = Mode::eval);

  Validation(const Validation&) = delete;  // its plan points to its hook
  Validation& operator=(const Validation&) = delete;

  /// Mean cross-entropy in nats over all targets.
  double loss();
  /// The same, and the mean of each position of a row: item t over the targets that stand at t (NaN where
  /// none does). `progress`: told the share that is done, from 0 to 1.
  double loss(std::vector<double>& by_position, const std::function<void(double)>& progress = {});
  /// After a loss that is not finite: "; the first tensor that is not finite is …", or nothing.
  std::string first_non_finite();
  std::vector<Plan<float>::Part> memory() const { return plan_.memory(); }

 private:
  // Sums of the loss by position, of the shards of one call.
  class ByPosition final : public Hook<float> {
   public:
    explicit ByPosition(std::int64_t block) : block_(block) {}
    bool wants(std::string_view point, Dir dir) const override {
      return point == "loss.token" && dir == Dir::forward;
    }
    void begin(int n_shard) override;
    void at(std::string_view, Dir, View<float> v, int shard) override;
    void add_to(std::vector<double>& sums) const;

   private:
    std::int64_t block_;
    std::vector<double> sums_;  // [shard][position]
  };
  const Feed& feed_;
  std::int64_t batch_, block_;
  ByPosition by_position_;
  std::array<Hook<float>*, 1> hooks_{&by_position_};
  Plan<float> plan_;
  std::vector<std::int32_t> x_, y_;
};

}  // namespace plumb
