// AdamW's moments and update, of all of a model's parameters or of those that another rule leaves to it.
#pragma once
#include "plumb/optim/optim.h"

namespace plumb {

template <class R>
class AdamWRule {
 public:
  AdamWRule(const ParamLayout&, const OptimSpec&, const std::function<bool(const ParamInfo&)>& chosen);
  void apply(const Update<R>&);
  std::vector<OptimState<R>> state(
      const ParamInfo&) const;  // "m", "v"; empty for a parameter that is not its own
  std::size_t bytes() const { return m_.bytes() + v_.bytes(); }

 private:
  struct Part {
    std::int64_t offset, n;
    R *m, *v;
    ParamRate rate;
  };
  OptimSpec s_;
  StateBuffer<R> m_, v_;
  std::vector<Part> parts_;
};

}  // namespace plumb
