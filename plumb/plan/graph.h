// The finished graph: what Builder hands to Plan.
#pragma once
#include <cmath>
#include <map>

#include "plumb/plan/builder.h"

namespace plumb {

enum class ValueKind : std::uint8_t { param, once, shard };

struct ValueInfo {
  Shape shape;
  ValueKind kind = ValueKind::shard;
  int node = -1, out = -1;     // producer; -1: a parameter
  int param = -1;
  std::vector<std::string> points;
  double expected_var = std::nan("");
};

template <class R>
struct Node {
  std::unique_ptr<Op<R>> op;
  NodeSpec spec;
  std::vector<Value> out;
  bool once = false;
  int segment = -1;            // the block that it belongs to, for recomputation; -1: none
};

struct AuxLoss {
  std::string name;
  Value value;
  double weight = 0;
};

template <class R>
struct GraphOf {
  std::vector<ValueInfo> values;
  std::vector<Node<R>> nodes;
  std::vector<ParamInfo> params;
  std::vector<bool> param_joins;  // adjacent to the one before, without padding
  std::vector<StateInfo> states;
  std::vector<AuxLoss> aux;
  int segment = -1;

  const ValueInfo& at(Value v) const { return values[static_cast<std::size_t>(v.id)]; }
  ValueInfo& at(Value v) { return values[static_cast<std::size_t>(v.id)]; }
  /// Offsets, fixed by the order of declaration.
  ParamLayout layout() const;
  bool cross_batch() const;
  bool sees_future() const;
  /// "blocks.3.attn.q" or the node's name and output.
  std::string name(Value v) const;
};

}  // namespace plumb
