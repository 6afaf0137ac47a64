// What init_too_large and init_too_small share.
#pragma once
#include "plumb/fault/fault.h"

namespace plumb {

/// Everything that is drawn at the start is drawn so many times as large.
template <class R>
class DrawnTimes : public GraphFault<R> {
 public:
  explicit DrawnTimes(double by) : by_(by) {}
  void rule(const ParamSpec&, ParamRule& rule) const override {
    if (rule.variance() > 0) rule.scale *= by_;
  }

 private:
  double by_;
};

}  // namespace plumb
