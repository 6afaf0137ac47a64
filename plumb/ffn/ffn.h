// Feed-forward sub-layers.
#pragma once
#include "plumb/kernel/activation.h"
#include "plumb/plan/builder.h"
#include "plumb/spec/entry.h"

namespace plumb {

template <class R>
struct Ffn {
  virtual ~Ffn() = default;
  /// x (B, T, C) → (B, T, C). `name`: "blocks.3.ffn". Names the points ".pre" (what goes into the
  /// activation), ".act" (what goes into the last linear) and ".out"; gated kinds also ".up".
  virtual Value build(Builder<R>&, Value x, const std::string& name, int layer) const = 0;
};

using FfnEntry = FamilyEntry<Ffn>;
template <template <class> class T>
constexpr FfnEntry ffn_entry(const Entry& e) {
  return make_entry<Ffn, T>(e);
}
std::vector<FfnEntry> ffn_table();

/// x → gain act(x) as a node, with the weight rule's constant.
template <class R>
Value activation(Builder<R>&, Value x, Activation, const std::string& name);

/// out(act(in(x))): two linears, d_ff wide in between.
template <class R>
Value mlp(Builder<R>&, Value x, const DecoderSpec&, Activation, const std::string& name, int layer);

/// out(act(gate(x)) * in(x)): three linears, two of them one product.
template <class R>
Value gated_mlp(Builder<R>&, Value x, const DecoderSpec&, Activation, const std::string& name, int layer);

/// A feed-forward kind that is `mlp` with this activation.
template <class R, Act act>
class Mlp final : public Ffn<R> {
 public:
  explicit Mlp(const DecoderSpec& s) : s_(s) {}
  Value build(Builder<R>& b, Value x, const std::string& name, int layer) const override {
    return mlp(b, x, s_, {.act = act, .slope = s_.init.leaky_slope}, name, layer);
  }

 private:
  DecoderSpec s_;
};

/// A feed-forward kind that is `gated_mlp` with this activation.
template <class R, Act act>
class GatedMlp final : public Ffn<R> {
 public:
  explicit GatedMlp(const DecoderSpec& s) : s_(s) {}
  Value build(Builder<R>& b, Value x, const std::string& name, int layer) const override {
    return gated_mlp(b, x, s_, {.act = act}, name, layer);
  }

 private:
  DecoderSpec s_;
};

}  // namespace plumb
