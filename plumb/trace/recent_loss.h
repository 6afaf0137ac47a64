// `train_loss`: the mean of the last losses, as every summary of a run gives it.
#pragma once
#include <cstddef>
#include <deque>

namespace plumb {

class RecentLoss {
 public:
  static constexpr std::size_t window = 50;
  void add(double loss) {
    last_.push_back(loss);
    if (last_.size() > window) last_.pop_front();
  }
  /// 0 when there was none.
  double mean() const {
    double sum = 0;
    for (double l : last_) sum += l / static_cast<double>(last_.size());
    return sum;
  }

 private:
  std::deque<double> last_;
};

}  // namespace plumb
