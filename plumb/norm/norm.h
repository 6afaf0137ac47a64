// Normalisation layers. One component a file; the table is generated from the file names.
#pragma once
#include "plumb/base/precision.h"
#include "plumb/plan/builder.h"
#include "plumb/spec/entry.h"

namespace plumb {

template <class R>
struct Norm {
  virtual ~Norm() = default;
  /// Adds the norm of x (B, T, C) to the graph; `name` ("blocks.3.attn.norm") prefixes its parameters.
  virtual Value build(Builder<R>& b, Value x, const std::string& name, int layer) const = 0;
};

using NormEntry = FamilyEntry<Norm>;
template <template <class> class T>
constexpr NormEntry norm_entry(const Entry& e) {
  return make_entry<Norm, T>(e);
}
std::vector<NormEntry> norm_table();

/// The learned gain and bias of a norm, a channel each: inputs 1 and 2 of its node, after x.
struct Affine {
  bool gain = true, bias = true, plus_one = false;
  /// As the spec has it; `with_bias`: the norm has a bias at all (RMSNorm has none).
  explicit Affine(const DecoderSpec& s, bool with_bias = true)
      : gain(s.norm_affine),
        bias(with_bias && s.norm_affine && s.norm_bias),
        plus_one(s.norm_gain == "plus_one") {}

  /// Adds the parameters `name`.gamma (1) and `name`.beta (0) to the node's inputs. With "plus_one" the
  /// parameter is `name`.w (0) and the gain 1 + w (Gemma), an ordinary node that runs once a step.
  template <class R>
  void add_to(Builder<R>& b, NodeSpec& n, const std::string& name, Dim channels, int layer) const;

  template <class R>
  View<const R> gamma(const Run<R>& r) const {
    return gain ? r.in(1) : View<const R>{};
  }
  template <class R>
  View<const R> beta(const Run<R>& r) const {
    return bias ? r.in(2) : View<const R>{};
  }
  template <class R>
  Sink<R> dgamma(const Run<R>& r) const {
    return gain ? r.din(1) : Sink<R>{};
  }
  template <class R>
  Sink<R> dbeta(const Run<R>& r) const {
    return bias ? r.din(2) : Sink<R>{};
  }
};

/// What a norm forms its sums in: fp32, or the storage format when the spec says so.
inline Format reduction_format(const DecoderSpec& s) {
  return s.numbers.norm_reduce == "storage" ? storage_format(precision_of(s.numbers.precision))
                                            : Format::fp32;
}

/// GroupNorm of each sequence by itself (kernel/group_norm.h); what `group` and `instance` are made of.
template <class R>
Value group_norm(Builder<R>& b, Value x, std::int64_t groups, double eps, const Affine&,
                 const std::string& name, int layer);

/// y = gamma f(alpha x + s) + beta, f squashing (kernel/squash.h), alpha a learned scalar that starts at the
/// spec's `norm_alpha` (`norm_alpha_attention` before attention, when it is given), s one that starts at 0
/// when `shifted`; what `dyt` and `derf` are made of.
enum class Squash : std::uint8_t { tanh, erf };
template <class R>
Value squashed(Builder<R>& b, Value x, Squash, bool shifted, const DecoderSpec&, const std::string& name,
               int layer);

}  // namespace plumb
