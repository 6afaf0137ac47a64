#include "plumb/plan/schedule.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "plumb/base/error.h"

namespace plumb {

std::int64_t place(std::vector<Lifetime>& all) {
  std::vector<std::size_t> order(all.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return all[a].size > all[b].size; });
  std::vector<std::size_t> placed;
  std::int64_t total = 0;
  std::vector<std::pair<std::int64_t, std::int64_t>> taken;
  for (const std::size_t i : order) {
    Lifetime& x = all[i];
    if (x.first < 0 || x.size == 0) continue;
    taken.clear();
    for (const std::size_t j : placed)
      if (all[j].first <= x.last && x.first <= all[j].last)
        taken.emplace_back(all[j].offset, all[j].offset + all[j].size);
    std::ranges::sort(taken);
    std::int64_t at = 0;
    for (const auto& [from, to] : taken) {
      if (at + x.size <= from) break;
      at = std::max(at, to);
    }
    x.offset = at;
    total = std::max(total, at + x.size);
    placed.push_back(i);
  }
  return total;
}

namespace {

using Space = Binding::Space;

/// Works out one schedule. A buffer is identified by what it holds: a value (its forward or its recomputed instance), the
/// gradient of a value, a kept tensor or a side result.
template <class R>
class Scheduler {
 public:
  Scheduler(const GraphOf<R>& g, const ParamLayout& layout, const PlanOptions& o, std::span<Hook<R>* const> hooks)
      : g_(g), layout_(layout), o_(o), hooks_(hooks) {}

  Schedule make() {
    cut_batch();
    find_reached();
    order();
    place_once_values();
    for (const auto& [node, phase] : order_) add_entry(node, phase);
    add_once_entries();
    s_.arena = place(buffers_);
    for (Step& e : s_.shard) fix(e);
    return std::move(s_);
  }

 private:
  static constexpr std::int64_t line = static_cast<std::int64_t>(cache_line / sizeof(R));
  static std::int64_t aligned(std::int64_t n) { return (n + line - 1) / line * line; }
  const Node<R>& node(int i) const { return g_.nodes[static_cast<std::size_t>(i)]; }
  std::size_t id(Value v) const { return static_cast<std::size_t>(v.id); }

  void cut_batch() {
    if (o_.batch < 1 || o_.block < 1) bad_input("[plan] a batch of {} sequences of {} tokens is empty", o_.batch, o_.block);
    s_.sequences = g_.cross_batch() ? o_.batch : std::clamp<std::int64_t>(o_.shard_tokens / o_.block, 1, o_.batch);
    s_.n_shard = (o_.batch + s_.sequences - 1) / s_.sequences;
    s_.tail = o_.batch % s_.sequences;
  }

  // Which values the loss depends on: only they have gradients.
  void find_reached() {
    reached_.assign(g_.values.size(), false);
    node_reached_.assign(g_.nodes.size(), false);
    for (const AuxLoss& a : g_.aux) reached_[id(a.value)] = true;
    for (std::size_t i = g_.nodes.size(); i-- > 0;) {
      const Node<R>& n = g_.nodes[i];
      bool r = n.spec.is_loss;
      for (Value v : n.out) r = r || reached_[id(v)];
      node_reached_[i] = r;
      if (r)
        for (Value v : n.spec.in) reached_[id(v)] = true;
    }
  }

  // The recomputation unit of a node: `recompute` blocks; -1: never recomputed.
  int segment(const Node<R>& n) const {
    return o_.recompute > 0 && n.segment >= 0 ? n.segment / o_.recompute : -1;
  }
  bool recomputed(int segment) const { return segment >= 0 && segment != last_segment_; }

  void order() {
    std::vector<int> shard_nodes;
    for (std::size_t i = 0; i < g_.nodes.size(); ++i) {
      if (g_.nodes[i].once) continue;
      shard_nodes.push_back(static_cast<int>(i));
      // The blocks that come last are still in memory when backward starts.
      if (segment(g_.nodes[i]) >= 0) last_segment_ = segment(g_.nodes[i]);
    }
    for (int i : shard_nodes) order_.emplace_back(i, Phase::forward);
    s_.n_forward = order_.size();
    if (o_.mode == Mode::eval) return;
    for (std::size_t i = shard_nodes.size(); i > 0;) {
      const int unit = segment(node(shard_nodes[i - 1]));
      std::size_t from = i;
      while (from > 0 && segment(node(shard_nodes[from - 1])) == unit) --from;
      if (recomputed(unit))
        for (std::size_t j = from; j < i; ++j) order_.emplace_back(shard_nodes[j], Phase::reforward);
      for (std::size_t j = i; j-- > from;)
        if (node_reached_[static_cast<std::size_t>(shard_nodes[j])]) order_.emplace_back(shard_nodes[j], Phase::backward);
      i = from;
    }
  }

  // -- tensors
  enum class Holds : std::uint8_t { value, again, grad, kept, kept_again, stat };

  std::int32_t buffer(Holds what, std::int64_t owner, std::size_t index, std::int64_t size) {
    const auto [it, fresh] =
        known_.try_emplace({what, owner, index}, static_cast<std::int32_t>(buffers_.size()));
    if (fresh) buffers_.push_back({.size = aligned(size)});
    buffers_[static_cast<std::size_t>(it->second)].use(static_cast<std::int64_t>(s_.shard.size()));
    return it->second;
  }

  std::int64_t elements(const Shape& s) const { return s.size() * (s.per_sequence() ? s_.sequences : 1); }

  static Binding sized(const Shape& s, Space space, std::int64_t offset = 0) {
    Binding b;
    b.space = space;
    b.per_sequence = s.per_sequence();
    b.rows = s.rows();
    b.cols = b.stride = s.cols();
    b.offset = offset;
    return b;
  }

  // A value's buffer is its own, or a column slice of the one that its joined siblings share.
  Binding in_arena(Holds what, Value v) {
    const ValueInfo& i = g_.at(v);
    Binding b = sized(i.shape, Space::arena);
    const Node<R>& n = node(i.node);
    if (!n.spec.joined_out) {
      b.buffer = buffer(what, v.id, 0, elements(i.shape));
      return b;
    }
    std::int64_t total = 0;
    b.stride = 0;
    for (std::size_t k = 0; k < n.out.size(); ++k) {
      if (static_cast<int>(k) == i.out) b.offset = b.stride;
      b.stride += n.spec.out[k].cols();
      total += elements(n.spec.out[k]);
    }
    b.buffer = buffer(what, n.out.front().id, 0, total);
    return b;
  }

  Binding value(Value v, bool again) {
    const ValueInfo& i = g_.at(v);
    switch (i.kind) {
      case ValueKind::param: return sized(i.shape, Space::param, param(i).offset);
      case ValueKind::once: return sized(i.shape, Space::once, once_offset_.at(v.id));
      case ValueKind::shard: break;
    }
    return in_arena(again ? Holds::again : Holds::value, v);
  }

  Binding grad(Value v) {
    const ValueInfo& i = g_.at(v);
    switch (i.kind) {
      case ValueKind::param: return sized(i.shape, Space::grad, param(i).offset);
      case ValueKind::once: return sized(i.shape, Space::grad, leaf_offset_.at(v.id));
      case ValueKind::shard: break;
    }
    return in_arena(Holds::grad, v);
  }

  const ParamInfo& param(const ValueInfo& i) const { return layout_.params[static_cast<std::size_t>(i.param)]; }

  void place_once_values() {
    s_.leaf_grads = layout_.n_param_elements;
    for (std::size_t v = 0; v < g_.values.size(); ++v) {
      if (g_.values[v].kind != ValueKind::once) continue;
      const auto key = static_cast<std::int32_t>(v);
      once_offset_[key] = s_.once;
      leaf_offset_[key] = s_.leaf_grads;
      s_.once += aligned(g_.values[v].shape.size());
      s_.leaf_grads += aligned(g_.values[v].shape.size());
    }
  }

  // -- entries
  // Does a node of unit `unit` read the recomputed instance of `v` in this phase?
  bool reads_again(Value v, int unit, Phase phase) const {
    const ValueInfo& i = g_.at(v);
    if (phase == Phase::forward || i.kind != ValueKind::shard) return false;
    return recomputed(unit) && segment(node(i.node)) == unit;
  }

  void add_entry(int index, Phase phase) {
    const Node<R>& n = node(index);
    Step e;
    e.node = index;
    e.phase = phase;
    const bool back = phase == Phase::backward;
    const bool again = phase == Phase::reforward || (back && recomputed(segment(n)));
    for (Value v : n.spec.in)
      e.b.in.push_back(back && !n.spec.backward_reads_in ? Binding{} : value(v, reads_again(v, segment(n), phase)));
    for (Value v : n.out)
      e.b.out.push_back(back && !n.spec.backward_reads_out ? Binding{} : value(v, again));
    for (std::size_t k = 0; k < n.spec.kept.size(); ++k) {
      Binding b = sized(n.spec.kept[k], Space::arena);
      b.buffer = buffer(again ? Holds::kept_again : Holds::kept, index, k, elements(n.spec.kept[k]));
      e.b.kept.push_back(b);
    }
    for (int st : n.spec.state) {
      const StateInfo& info = layout_.states[static_cast<std::size_t>(st)];
      e.b.state.push_back(sized(info.spec.shape, Space::state, info.offset));
    }
    if (back)
      add_gradients(n, e);
    else
      add_looks(n, index, phase, e);
    s_.shard.push_back(std::move(e));
  }

  void add_looks(const Node<R>& n, int index, Phase phase, Step& e) {
    for (std::size_t k = 0; k < n.out.size(); ++k) {
      const std::int32_t v = n.out[k].id;
      if (phase == Phase::forward)
        for (std::size_t a = 0; a < g_.aux.size(); ++a)
          if (g_.aux[a].value.id == v) e.aux.push_back({static_cast<int>(a), e.b.out[k]});
      for (const std::string& p : g_.at(n.out[k]).points) look(p, Dir::forward, e.b.out[k], phase, e);
    }
    e.b.stat.resize(n.spec.stats.size());
    if (phase != Phase::forward) return;
    for (std::size_t k = 0; k < n.spec.stats.size(); ++k) {
      const StatSpec& st = n.spec.stats[k];
      if (std::ranges::none_of(hooks_, [&](auto* h) { return h->wants(st.name, Dir::forward); })) continue;
      e.b.stat[k] = sized(st.shape, Space::arena);
      e.b.stat[k].buffer = buffer(Holds::stat, index, k, elements(st.shape));
      look(st.name, Dir::forward, e.b.stat[k], phase, e);
    }
  }

  void look(const std::string& point, Dir dir, const Binding& where, Phase phase, Step& e) const {
    for (std::size_t h = 0; h < hooks_.size(); ++h)
      if (hooks_[h]->wants(point, dir) && (phase != Phase::reforward || hooks_[h]->rewrites()))
        e.looks.push_back({static_cast<int>(h), point, dir, where});
  }

  // The first consumer in backward order overwrites, later ones add.
  Binding sink(Value v) {
    Binding b = grad(v);
    b.overwrite = written_.insert(v.id).second;
    return b;
  }

  void add_gradients(const Node<R>& n, Step& e) {
    for (Value v : n.out) {
      const Binding b = grad(v);
      e.b.dout.push_back(b);
      if (!written_.contains(v.id)) e.clear.push_back(b);
      for (std::size_t a = 0; a < g_.aux.size(); ++a)
        if (g_.aux[a].value.id == v.id) e.aux.push_back({static_cast<int>(a), b});
      for (const std::string& p : g_.at(v).points) look(p, Dir::backward, b, Phase::backward, e);
    }
    for (Value v : n.spec.in) e.b.din.push_back(sink(v));
  }

  void add_once_entries() {
    for (std::size_t i = 0; i < g_.nodes.size(); ++i) {
      const Node<R>& n = g_.nodes[i];
      if (!n.once) continue;
      Step e;
      e.node = static_cast<int>(i);
      for (Value v : n.spec.in) e.b.in.push_back(value(v, false));
      for (Value v : n.out) e.b.out.push_back(value(v, false));
      for (const Shape& k : n.spec.kept) {
        e.b.kept.push_back(sized(k, Space::once, s_.once));
        s_.once += aligned(k.size());
      }
      e.b.stat.resize(n.spec.stats.size());
      s_.once_forward.push_back(std::move(e));
    }
    if (o_.mode == Mode::eval) return;
    for (std::size_t i = s_.once_forward.size(); i-- > 0;) {
      Step e = s_.once_forward[i];
      e.phase = Phase::backward;
      const Node<R>& n = node(e.node);
      if (!node_reached_[static_cast<std::size_t>(e.node)]) continue;
      add_gradients(n, e);
      s_.once_backward.push_back(std::move(e));
    }
  }

  void fix(Binding& b) const {
    if (b.space == Space::arena) b.offset += buffers_[static_cast<std::size_t>(b.buffer)].offset;
  }
  void fix(Step& e) const {
    for (auto* list : {&e.b.in, &e.b.out, &e.b.kept, &e.b.dout, &e.b.din, &e.b.stat, &e.clear})
      for (Binding& b : *list) fix(b);
    for (Look& l : e.looks) fix(l.where);
    for (auto& a : e.aux) fix(a.where);
  }

  const GraphOf<R>& g_;
  const ParamLayout& layout_;
  const PlanOptions& o_;
  std::span<Hook<R>* const> hooks_;
  Schedule s_;
  std::vector<bool> reached_, node_reached_;
  std::vector<std::pair<int, Phase>> order_;
  int last_segment_ = -1;
  std::vector<Lifetime> buffers_;
  std::map<std::tuple<Holds, std::int64_t, std::size_t>, std::int32_t> known_;
  std::map<std::int32_t, std::int64_t> once_offset_, leaf_offset_;
  std::set<std::int32_t> written_;
};

}  // namespace

template <class R>
Schedule make_schedule(const GraphOf<R>& g, const ParamLayout& l, const PlanOptions& o, std::span<Hook<R>* const> h) {
  return Scheduler<R>(g, l, o, h).make();
}

template Schedule make_schedule(const GraphOf<float>&, const ParamLayout&, const PlanOptions&,
                                std::span<Hook<float>* const>);
template Schedule make_schedule(const GraphOf<double>&, const ParamLayout&, const PlanOptions&,
                                std::span<Hook<double>* const>);

}  // namespace plumb
