// Initialisation: how each parameter starts, seen by role, fans and depth; never by a suffix of its name.
#pragma once
#include "plumb/plan/builder.h"
#include "plumb/spec/entry.h"

namespace plumb {

template <class R>
struct Init {
  virtual ~Init() = default;
  /// Components that know their own start (a norm's gain of 1) do not ask.
  virtual ParamRule rule(const ParamSpec&, double branch_gain) const = 0;
  /// Multipliers of the learning rate, for every parameter, also those that know their start; muP's.
  virtual void multiply(Role, ParamRule&) const {}
  /// A constant that multiplies the logits; muP's.
  virtual double logit_scale() const { return 1; }
  /// What stands before each linear and activation; identity but for Fixup.
  virtual Value before(Builder<R>&, Value x, std::string_view name) const {
    (void)name;
    return x;
  }
  virtual bool has_before() const { return false; }
  /// What stands at the end of a branch, before it is written; identity but for Fixup.
  virtual Value after_branch(Builder<R>&, Value x, const Site&) const { return x; }
};

using InitEntry = FamilyEntry<Init>;
template <template <class> class T>
constexpr InitEntry init_entry(const Entry& e) {
  return make_entry<Init, T>(e);
}
std::vector<InitEntry> init_table();

/// Mean 0 and this standard deviation, from the spec's distribution ("normal", or "uniform" with bound sqrt(3) std).
ParamRule drawn(const DecoderSpec&, double std);

/// Why branches that write zeros at the start cannot stand in this model; empty: they can.
std::string refuses_zero_writes(const DecoderSpec&);

/// What the rules by fans do: biases and other scalars 0, tables (token, position, score bias: lookups, not sums over fan_in)
/// drawn with init.std, every matrix with `std`.
ParamRule by_fans(const DecoderSpec&, const ParamSpec&, double std);

/// y = x + s and y = s x, s a scalar parameter (1). Fixup's.
template <class R>
Value add_scalar(Builder<R>&, Value x, Value s, const std::string& name);
template <class R>
Value multiply_scalar(Builder<R>&, Value x, Value s, const std::string& name);

}  // namespace plumb
