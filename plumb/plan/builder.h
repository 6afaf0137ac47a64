// Builds a graph once: shapes known, nothing runs. Composition is written forward only.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <set>

#include "plumb/plan/hook.h"
#include "plumb/plan/op.h"
#include "plumb/plan/params.h"

namespace plumb {

/// A handle to a tensor of the graph.
struct Value {
  std::int32_t id = -1;
  explicit operator bool() const { return id >= 0; }
};

enum class Sub : std::uint8_t { attention, ffn };
/// Where in the stack a sub-layer sits. `write` counts residual writes from 0; n_write = 2 n_layer.
struct Site {
  int layer = 0, n_layer = 0;
  Sub sub = Sub::attention;
  int write = 0, n_write = 0;
  /// "blocks.3.attn"
  std::string name() const;
};

struct StatSpec {
  std::string name;  // full name of the point
  Shape shape;
};

/// A node: which values it reads, the shapes that it makes. By default backward may read every input and output; an op
/// that does not says so, and the plan reuses the memory.
struct NodeSpec {
  std::string name = {};
  std::vector<Value> in = {};
  std::vector<Shape> out = {}, kept = {};
  std::vector<StatSpec> stats = {};
  std::vector<int> state = {};
  bool backward_reads_in = true, backward_reads_out = true;
  bool joined_out = false;  // outputs lie side by side, as column slices of one buffer
  bool is_loss = false;     // has no output: calls add_loss, and starts the backward pass
};

struct LinearSpec {
  std::string name = {};  // "blocks.3.attn.q": the weight is name + ".weight"
  Dim out = {};
  Role role = Role::ffn_in;
  bool bias = false;
  int layer = -1;
};

template <class R>
struct GraphOf;
template <class R>
class Builder;

/// What the model room plugs into `Builder::linear` and friends; the families never see each other.
template <class R>
struct Rules {
  /// The init rule; `branch_gain` is the residual bus's factor (DeepNorm's beta), 1 elsewhere.
  std::function<ParamRule(const ParamSpec&, double branch_gain)> init = {};
  std::function<double(Role, const Site&)> branch_gain = {};               // may be empty: 1
  std::function<void(const ParamSpec&, ParamRule&)> adjust = {};  // the rule of every parameter, last; may be empty
  std::function<Value(Builder<R>&, std::string_view point, Value)> edit = {};  // what takes a named value's place; may be empty
  std::function<Value(Builder<R>&, Value w, const ParamSpec&)> weight = {};  // transform of a weight matrix; may be empty
  std::function<Value(Builder<R>&, Value x, std::string_view name)> before = {};  // before a linear or an activation
  std::function<double(std::string_view activation)> activation_gain = {};  // may be empty: 1
};

template <class R>
class Builder {
 public:
  /// `context` > 0: the graph decodes, one position a call, and keeps what attention needs of so many earlier ones.
  Builder(Rules<R> rules, Mode mode, std::span<Hook<R>* const> hooks, std::int64_t context = 0);
  ~Builder();

  /// Adds a node; returns its outputs. A node whose inputs are all parameters (or made of them) and whose outputs are
  /// not per sequence runs once a step, before the shards; its backward once, after their sum.
  std::vector<Value> node(std::unique_ptr<Op<R>> op, NodeSpec spec);
  /// The same for a single output.
  Value node1(std::unique_ptr<Op<R>> op, NodeSpec spec) { return node(std::move(op), std::move(spec)).front(); }

  Value param(ParamSpec spec);
  Value param(ParamSpec spec, ParamRule rule);  // a component that knows its own start (a gain of 1)
  /// The only maker of weight matrices: init rule x the bus's gain, then the weight transform. (out, in).
  Value weight(const LinearSpec& spec, Dim in);
  /// y = x w^T + b for a weight made by `weight` (or an embedding table: a tied head).
  Value product(Value x, Value w, std::optional<Value> bias, std::string_view name);
  Value linear(Value x, const LinearSpec& spec);
  /// Several linears of one input. Their weights are adjacent in memory and run as one product where no transform
  /// stands between.
  std::vector<Value> linears(Value x, std::span<const LinearSpec> specs);
  /// What Fixup puts before an activation (and before each linear); identity elsewhere.
  Value before_activation(Value x, std::string_view name);
  double activation_gain(std::string_view kind) const;

  int state(StateSpec spec);
  /// Names a value: observable, and with a rewriting hook replaceable, in both directions. A value may have many names.
  /// Returns what is to be used from here on: the value itself, unless the rules put another in its place.
  [[nodiscard]] Value point(std::string_view name, Value v);
  /// Has a hook asked for this interior point ("…attn.scores")? Then the composed twin is built instead of the tiles.
  bool wants(std::string_view interior) const;
  /// Adds weight * (mean over shards, by their share of tokens, of the single-element `v`) to the loss.
  void aux_loss(std::string_view name, Value v, double weight);

  /// Expected second moment of an element at init, tracked while building for independent inputs of mean zero (NF blocks, the
  /// theory beside `profile`); NaN: unknown.
  double expected_var(Value) const;
  void expected_var(Value, double);

  const Shape& shape(Value) const;
  const ParamRule& rule(Value param) const;
  Mode mode() const { return mode_; }
  std::int64_t context() const { return context_; }
  void site(std::optional<Site> s) { site_ = s; }  // where the model is building; read by init
  const std::optional<Site>& site() const { return site_; }
  void segment(int s);                              // recomputation unit of the nodes that follow; -1: never recomputed

  GraphOf<R> finish();

 private:
  GraphOf<R>& g() const { return *g_; }
  std::vector<Value> product_of(Value x, std::span<const Value> w, std::span<const Value> bias, std::string name);
  Rules<R> rules_;
  Mode mode_;
  std::int64_t context_;
  std::vector<Hook<R>*> hooks_;
  std::optional<Site> site_;
  bool grouping_ = false;  // inside `linears`: the next weights join the group before
  std::unique_ptr<GraphOf<R>> g_;
};

}  // namespace plumb
