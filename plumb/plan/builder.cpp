#include "plumb/plan/builder.h"

#include "plumb/base/error.h"
#include "plumb/plan/graph.h"
#include "plumb/plan/linear.h"

namespace plumb {
namespace {

ParamSpec weight_spec(const LinearSpec& s, Dim in) {
  return {.name = s.name + ".weight",
          .role = s.role,
          .shape = {s.out, in},
          .fan_in = in.n,
          .fan_out = s.out.n,
          .layer = s.layer};
}

}  // namespace

std::string Site::name() const {
  return "blocks." + std::to_string(layer) + (sub == Sub::attention ? ".attn" : ".ffn");
}

template <class R>
Builder<R>::Builder(Rules<R> rules, Mode mode, std::span<Hook<R>* const> hooks, std::int64_t context)
    : rules_(std::move(rules)),
      mode_(mode),
      context_(context),
      hooks_(hooks.begin(), hooks.end()),
      g_(std::make_unique<GraphOf<R>>()) {}

template <class R>
Builder<R>::~Builder() = default;

template <class R>
std::vector<Value> Builder<R>::node(std::unique_ptr<Op<R>> op, NodeSpec spec) {
  GraphOf<R>& graph = g();
  const int index = static_cast<int>(graph.nodes.size());
  bool once = !spec.is_loss;
  for (const Shape& s : spec.out) once = once && !s.per_sequence();
  for (Value v : spec.in) once = once && graph.at(v).kind != ValueKind::shard;
  Node<R> n;
  n.once = once;
  n.segment = once ? -1 : graph.segment;
  for (std::size_t i = 0; i < spec.out.size(); ++i) {
    n.out.push_back({static_cast<std::int32_t>(graph.values.size())});
    ValueInfo& v = graph.values.emplace_back();
    v.shape = spec.out[i];
    v.kind = once ? ValueKind::once : ValueKind::shard;
    v.node = index;
    v.out = static_cast<int>(i);
  }
  n.op = std::move(op);
  n.spec = std::move(spec);
  graph.nodes.push_back(std::move(n));
  return graph.nodes.back().out;
}

template <class R>
Value Builder<R>::param(ParamSpec spec) {
  const double gain = rules_.branch_gain && site_ ? rules_.branch_gain(spec.role, *site_) : 1.0;
  const ParamRule rule = rules_.init(spec, gain);
  return param(std::move(spec), rule);
}

template <class R>
Value Builder<R>::param(ParamSpec spec, ParamRule rule) {
  GraphOf<R>& graph = g();
  for (const ParamInfo& p : graph.params)
    if (p.spec.name == spec.name) fail("[builder] two parameters are called '{}'; give one another name", spec.name);
  if (rules_.adjust) rules_.adjust(spec, rule);
  const Value v{static_cast<std::int32_t>(graph.values.size())};
  ValueInfo& info = graph.values.emplace_back();
  info.shape = spec.shape;
  info.kind = ValueKind::param;
  info.param = static_cast<int>(graph.params.size());
  graph.params.push_back({std::move(spec), rule, 0});
  graph.param_joins.push_back(grouping_);
  return v;
}

template <class R>
Value Builder<R>::weight(const LinearSpec& spec, Dim in) {
  const ParamSpec p = weight_spec(spec, in);
  const Value w = param(p);
  return rules_.weight ? rules_.weight(*this, w, p) : w;
}

template <class R>
std::vector<Value> Builder<R>::product_of(Value x, std::span<const Value> w, std::span<const Value> bias,
                                          std::string name) {
  NodeSpec n;
  n.name = std::move(name);
  n.in.push_back(x);
  n.in.insert(n.in.end(), w.begin(), w.end());
  n.in.insert(n.in.end(), bias.begin(), bias.end());
  n.joined_out = w.size() > 1;
  n.backward_reads_out = false;
  for (Value v : w) {
    Shape s = shape(x);
    if (s.cols() != shape(v).cols())
      fail("[linear] {}: the weight is {}, the input's last dim is {}", n.name, shape(v).text(), s.cols());
    s.dims.back() = shape(v).dims.front();
    n.out.push_back(std::move(s));
  }
  const std::vector<Value> y = node(std::make_unique<LinearOp<R>>(w.size(), !bias.empty()), std::move(n));
  for (std::size_t i = 0; i < y.size(); ++i)
    if (g().at(w[i]).param >= 0)
      expected_var(y[i], expected_var(x) * static_cast<double>(shape(w[i]).cols()) * rule(w[i]).variance());
  return y;
}

template <class R>
Value Builder<R>::product(Value x, Value w, std::optional<Value> bias, std::string_view name) {
  const Value b = bias.value_or(Value{});
  return product_of(x, {&w, 1}, {&b, bias ? 1u : 0u}, std::string(name)).front();
}

template <class R>
Value Builder<R>::linear(Value x, const LinearSpec& spec) {
  return linears(x, {&spec, 1}).front();
}

template <class R>
std::vector<Value> Builder<R>::linears(Value x, std::span<const LinearSpec> specs) {
  if (rules_.before) x = rules_.before(*this, x, specs.front().name);
  const Dim in = shape(x).dims.back();
  std::vector<Value> w, b;
  std::vector<ParamSpec> made;
  // Parameters first, all adjacent; transforms after, so that what they declare does not come between.
  for (const LinearSpec& s : specs) {
    made.push_back(weight_spec(s, in));
    w.push_back(param(made.back()));
    grouping_ = true;
  }
  grouping_ = false;
  for (const LinearSpec& s : specs) {
    if (!s.bias) continue;
    b.push_back(param({.name = s.name + ".bias",
                       .role = Role::bias,
                       .shape = {s.out},
                       .fan_in = in.n,
                       .fan_out = s.out.n,
                       .layer = s.layer}));
    grouping_ = true;
  }
  grouping_ = false;
  if (!b.empty() && b.size() != w.size())
    fail("[linear] {}: of several linears of one input all or none have a bias", specs.front().name);
  if (rules_.weight)
    for (std::size_t i = 0; i < w.size(); ++i) w[i] = rules_.weight(*this, w[i], made[i]);
  return product_of(x, w, b, specs.front().name);
}

template <class R>
Value Builder<R>::before_activation(Value x, std::string_view name) {
  return rules_.before ? rules_.before(*this, x, name) : x;
}

template <class R>
double Builder<R>::activation_gain(std::string_view kind) const {
  return rules_.activation_gain ? rules_.activation_gain(kind) : 1.0;
}

template <class R>
int Builder<R>::state(StateSpec spec) {
  g().states.push_back({std::move(spec), 0});
  return static_cast<int>(g().states.size()) - 1;
}

template <class R>
Value Builder<R>::point(std::string_view name, Value v) {
  if (rules_.edit) v = rules_.edit(*this, name, v);
  g().at(v).points.emplace_back(name);
  return v;
}

template <class R>
bool Builder<R>::wants(std::string_view interior) const {
  for (const Hook<R>* h : hooks_)
    if (h->wants(interior, Dir::forward) || h->wants(interior, Dir::backward)) return true;
  return false;
}

template <class R>
void Builder<R>::aux_loss(std::string_view name, Value v, double weight) {
  if (shape(v).size() != 1) fail("[aux_loss] {} has shape {}, not a single element", name, shape(v).text());
  g().aux.push_back({std::string(name), v, weight});
}

template <class R>
double Builder<R>::expected_var(Value v) const {
  return g().at(v).expected_var;
}
template <class R>
void Builder<R>::expected_var(Value v, double x) {
  g().at(v).expected_var = x;
}
template <class R>
const Shape& Builder<R>::shape(Value v) const {
  return g().at(v).shape;
}
template <class R>
const ParamRule& Builder<R>::rule(Value v) const {
  return g().params[static_cast<std::size_t>(g().at(v).param)].rule;
}
template <class R>
void Builder<R>::segment(int s) {
  g().segment = s;
}

template <class R>
GraphOf<R> Builder<R>::finish() {
  return std::move(*g_);
}

template <class R>
ParamLayout GraphOf<R>::layout() const {
  constexpr std::int64_t line = static_cast<std::int64_t>(cache_line / sizeof(R));
  auto aligned = [](std::int64_t n) { return (n + line - 1) / line * line; };
  ParamLayout l;
  l.params = params;
  l.states = states;
  for (std::size_t i = 0; i < params.size(); ++i) {
    if (!param_joins[i]) l.n_param_elements = aligned(l.n_param_elements);
    l.params[i].offset = l.n_param_elements;
    l.n_param_elements += params[i].size();
  }
  l.n_param_elements = aligned(l.n_param_elements);
  for (auto& s : l.states) {
    s.offset = l.n_state_elements;
    l.n_state_elements = aligned(l.n_state_elements + s.spec.shape.size());
  }
  return l;
}

template <class R>
bool GraphOf<R>::cross_batch() const {
  for (auto& n : nodes)
    if (n.op->info().cross_batch) return true;
  return false;
}

template <class R>
bool GraphOf<R>::sees_future() const {
  for (auto& n : nodes)
    if (n.op->info().sees_future) return true;
  return false;
}

template <class R>
std::string GraphOf<R>::name(Value v) const {
  const ValueInfo& i = at(v);
  if (i.param >= 0) return params[static_cast<std::size_t>(i.param)].spec.name;
  if (!i.points.empty()) return i.points.front();
  const auto& n = nodes[static_cast<std::size_t>(i.node)];
  std::string s = n.spec.name + " (" + std::string(n.op->info().kind);
  if (n.out.size() > 1) s += ", output " + std::to_string(i.out);
  return s + ")";
}

template class Builder<float>;
template class Builder<double>;
template struct GraphOf<float>;
template struct GraphOf<double>;

}  // namespace plumb
