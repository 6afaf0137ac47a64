// Parameters and saved state of a model: one flat buffer each, shared by all of its plans.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plumb/base/role.h"
#include "plumb/tensor/arena.h"
#include "plumb/tensor/shape.h"
#include "plumb/tensor/view.h"

namespace plumb {

/// Is weight decay right for it? Never for norms, biases and other gains, whatever their shape.
bool decays(Role);

/// Everything that init, optimiser, checkpoint and import may know about a parameter; never a suffix of its
/// name.
struct ParamSpec {
  std::string name = {};  // "blocks.3.attn.q.weight"
  Role role = Role::scalar;
  Shape shape = {};  // weights are [out, in]
  std::int64_t fan_in = 1, fan_out = 1;
  int layer = -1;  // -1: outside the stack
};

/// How a parameter starts, and its multipliers of the optimiser's settings.
struct ParamRule {
  enum class Kind : std::uint8_t { constant, normal, uniform, row_norms } kind = Kind::constant;
  double scale = 0;  // the constant, the standard deviation, or the bound of the uniform distribution
  double lr = 1, lr_sgd = 1, decay = 1;  // times the learning rate of Adam and its like, of SGD; times the decay, which is relative
                                         // to the learning rate without these
  bool decays_anyway = false;  // also where decay is not right for the role
  std::string of = {};  // row_norms: element i is the length of row i of this parameter as drawn
  bool operator==(const ParamRule&) const = default;
  /// Variance of an element as drawn (0 for a constant).
  double variance() const {
    return kind == Kind::normal ? scale * scale : kind == Kind::uniform ? scale * scale / 3 : 0;
  }
};

struct ParamInfo {
  ParamSpec spec;
  ParamRule rule;
  std::int64_t offset = 0;  // elements into the flat buffer
  std::int64_t size() const { return spec.shape.size(); }
};

struct StateSpec {
  std::string name = {};
  Shape shape = {};
  double init = 0;
  bool saved = true;  // running statistics are; pending ones are not
};
struct StateInfo {
  StateSpec spec;
  std::int64_t offset = 0;
};

/// Offsets of parameters and states. Groups declared together (q, k, v) are adjacent without padding, so that
/// they can be one product; everything else starts on a cache line.
struct ParamLayout {
  std::vector<ParamInfo> params;
  std::vector<StateInfo> states;
  std::int64_t n_param_elements = 0, n_state_elements = 0;  // with padding (always zero)
  std::int64_t count() const;                               // of parameters, without padding
  const ParamInfo& find(std::string_view name) const;       // throws, naming the nearest known
  bool operator==(const ParamLayout& o) const;
};

/// The tensors themselves.
template <class R>
class ParamStore {
 public:
  /// Allocates, and draws every parameter from the stream "init/<name>" of `seed`: the same whatever the
  /// order.
  ParamStore(ParamLayout layout, std::uint64_t seed);
  const ParamLayout& layout() const { return layout_; }
  std::span<R> values() const {
    return {values_.as<R>(), static_cast<std::size_t>(layout_.n_param_elements)};
  }
  std::span<R> states() const {
    return {states_.as<R>(), static_cast<std::size_t>(layout_.n_state_elements)};
  }
  View<R> param(std::string_view name) const;
  View<R> view(const ParamInfo&) const;
  View<R> view(const StateInfo&) const;
  /// SHA-256 over names, shapes and bytes of parameters and saved state.
  std::string hash() const;
  std::size_t bytes() const { return values_.bytes() + states_.bytes(); }

 private:
  ParamLayout layout_;
  Arena values_, states_;
};

}  // namespace plumb
