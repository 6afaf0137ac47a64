// Feed-forward sub-layers.
#pragma once
#include "plumb/plan/builder.h"
#include "plumb/spec/entry.h"

namespace plumb {

template <class R>
struct Ffn {
  virtual ~Ffn() = default;
  /// x (B, T, C) → (B, T, C). `name`: "blocks.3.ffn". Names the points ".pre", ".act" and ".out".
  virtual Value build(Builder<R>&, Value x, const std::string& name, int layer) const = 0;
};

using FfnEntry = FamilyEntry<Ffn>;
template <template <class> class T>
constexpr FfnEntry ffn_entry(const Entry& e) {
  return make_entry<Ffn, T>(e);
}
std::vector<FfnEntry> ffn_table();

/// An element-wise activation: y = gain act(x), and dx (+)= gain act'(x) dy.
template <class R>
struct Activation {
  std::string_view kind;
  void (*forward)(View<const R> x, double gain, View<R> y);
  void (*backward)(View<const R> dy, View<const R> x, double gain, Sink<R> dx);
};

/// x → act(x) as a node, behind whatever Fixup puts before an activation and with the weight rule's constant.
template <class R>
Value activation(Builder<R>&, Value x, const Activation<R>&, const std::string& name);

/// out(act(in(x))): two linears, d_ff wide in between.
template <class R>
Value mlp(Builder<R>&, Value x, const DecoderSpec&, const Activation<R>&, const std::string& name, int layer);

}  // namespace plumb
