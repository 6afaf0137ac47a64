// The residual rule is a bus: what a sub-layer reads, what it writes, how the stream begins and ends.
#pragma once
#include "plumb/plan/builder.h"
#include "plumb/spec/entry.h"

namespace plumb {

/// One object a model: it may keep build-time state (expected variances, a shared scalar, lanes).
template <class R>
struct Residual {
  struct In {
    Value shortcut, branch;
  };
  virtual ~Residual() = default;
  /// From the embedded tokens (B, T, C) to the stream; identity, or n lanes.
  virtual Value open(Builder<R>&, Value embedded) { return embedded; }
  /// What the shortcut carries on, and what the branch reads.
  virtual In enter(Builder<R>&, Value stream, const Site&) { return {stream, stream}; }
  /// The stream after a branch wrote its output. Names the points ".skip" and ".write".
  virtual Value leave(Builder<R>&, Value shortcut, Value branch, const Site&) = 0;
  /// What the final norm and the head read.
  virtual Value close(Builder<R>&, Value stream) { return stream; }
  /// A factor on the init of what writes to the stream (DeepNorm's beta).
  virtual double branch_gain(Role, const Site&) const { return 1; }
};

using ResidualEntry = FamilyEntry<Residual>;
template <template <class> class T>
constexpr ResidualEntry residual_entry(const Entry& e) {
  return make_entry<Residual, T>(e);
}
std::vector<ResidualEntry> residual_table();

/// Throws "[op] name: …" with both shapes unless they agree.
void require_same_shape(std::string_view op, const std::string& name, const Shape& stream, const Shape& branch);

/// The reason why a branch that starts at zero cannot stand in this model; empty: it can.
std::string refuses_zero_start(const DecoderSpec&);

/// y = a x + b z for values of one shape; a and b are constants of the graph. The op most rules are made of.
template <class R>
Value scaled_sum(Builder<R>& b, double a, Value x, double c, Value z, const std::string& name);

/// y = a x.
template <class R>
Value scaled(Builder<R>& b, double a, Value x, const std::string& name);

/// y = x + a g z, g a learned scalar parameter (1).
template <class R>
Value gated_sum(Builder<R>& b, Value x, double a, Value g, Value z, const std::string& name);

}  // namespace plumb
