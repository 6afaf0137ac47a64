// Weight parametrisations: what stands between a stored matrix and the one that is multiplied.
#pragma once
#include "plumb/plan/builder.h"
#include "plumb/spec/entry.h"

namespace plumb {

template <class R>
struct WeightParam {
  virtual ~WeightParam() = default;
  /// w (out, in) as stored → as multiplied; ordinary nodes, run once a step.
  virtual Value transform(Builder<R>&, Value w, const ParamSpec&) const { return w; }
  /// A constant that multiplies the output of an activation of this kind (scaled_ws keeps variance 1 with it).
  virtual double activation_gain(std::string_view kind) const {
    (void)kind;
    return 1;
  }
};

using WeightEntry = FamilyEntry<WeightParam>;
template <template <class> class T>
constexpr WeightEntry weight_entry(const Entry& e) {
  return make_entry<WeightParam, T>(e);
}
std::vector<WeightEntry> weight_table();

}  // namespace plumb
