#include "plumb/plan/plan.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "plumb/base/clock.h"
#include "plumb/base/error.h"
#include "plumb/tensor/rounding.h"
#include "plumb/kernel/rows.h"

namespace plumb {
namespace {

constexpr std::int64_t norm_slice = 16384;

template <class R>
void clear(View<R> v) {
  for (std::int64_t i = 0; i < v.rows; ++i) std::fill_n(v.row(i), v.cols, R(0));
}

}  // namespace

template <class R>
struct Plan<R>::Impl {
  using Space = Binding::Space;

  GraphOf<R> graph;
  ParamStore<R>* store;
  PlanOptions o;
  ThreadPool* pool;
  std::vector<Hook<R>*> hooks;
  Schedule s;
  ProductCache<R> products;
  Arena arena, once, scratch;
  std::size_t arena_bytes = 0, scratch_bytes = 0;
  std::vector<std::byte*> scratch_of;
  TreeSum<R> sums;
  bool one_shard = false;

  // of the call in progress
  std::span<const std::int32_t> x, y;
  CallKey key;
  std::int64_t tokens = 0;
  bool replay = false, observed = true;
  std::vector<double> shard_loss, shard_terms, norm_parts;
  std::vector<double> shard_aux;  // [shard][aux]
  // seconds by worker, node, direction
  bool timing = false;
  std::vector<double> seconds;

  std::int64_t sequences(std::int64_t shard) const {
    return s.tail && shard == s.n_shard - 1 ? s.tail : s.sequences;
  }

  Run<R> make_run(std::int64_t shard) {
    Run<R> r;
    r.base_[static_cast<std::size_t>(Space::arena)] =
        reinterpret_cast<R*>(arena.data() + static_cast<std::size_t>(pool->worker()) * arena_bytes);
    r.base_[static_cast<std::size_t>(Space::param)] = store->values().data();
    r.base_[static_cast<std::size_t>(Space::state)] = store->states().data();
    r.base_[static_cast<std::size_t>(Space::once)] = once.as<R>();
    if (o.mode == Mode::train) r.base_[static_cast<std::size_t>(Space::grad)] = sums.slot(shard);
    r.n_seq_ = sequences(shard);
    r.variant_ = s.tail && shard == s.n_shard - 1 && s.n_shard > 1 ? 1 : 0;
    const auto first = static_cast<std::size_t>(shard * s.sequences * o.block);
    const auto count = static_cast<std::size_t>(r.n_seq_ * o.block);
    if (!x.empty()) r.tokens_ = x.subspan(first, count);
    if (!y.empty()) r.targets_ = y.subspan(first, count);
    r.loss_ = &shard_loss[static_cast<std::size_t>(shard)];
    r.terms_ = &shard_terms[static_cast<std::size_t>(shard)];
    r.loss_scale_ = tokens ? o.loss_factor / static_cast<double>(tokens) : 0;
    r.mode_ = o.mode;
    r.operands_ = product_format(o.precision);
    r.replay_ = replay;
    r.observed_ = observed && !replay;
    r.step_ = key.step;
    r.first_sample_ = key.first_sample + shard * s.sequences;
    r.position_ = key.position;
    r.piece_rows_ = one_shard ? o.shard_tokens : r.n_seq_ * o.block + 1;
    r.scratch_ = scratch_of.data();
    r.workers_ = pool;
    r.pool_ = one_shard ? pool : nullptr;
    return r;
  }

  // Share of the call's tokens that lie in the shard: the weight of its auxiliary losses.
  double share(const Run<R>& r) const {
    const auto n = std::ranges::count_if(r.targets(), [](std::int32_t t) { return t >= 0; });
    return static_cast<double>(n) * r.loss_scale();
  }

  void execute(const Step& e, Run<R>& r, std::int64_t shard) {
    const Node<R>& n = graph.nodes[static_cast<std::size_t>(e.node)];
    r.b_ = &e.b;
    r.replay_ = replay || e.phase == Phase::reforward;
    const bool back = e.phase == Phase::backward;
    if (back) {
      for (const Binding& b : e.clear) clear(r.view(b));
      for (const auto& a : e.aux) {
        R& g = *r.view(a.where).data;
        g = static_cast<R>(static_cast<double>(g) +
                           graph.aux[static_cast<std::size_t>(a.index)].weight * share(r));
      }
      look(e, r, shard);
    }
    const double t = timing ? now_s() : 0;
    if (back)
      n.op->backward(r);
    else
      n.op->forward(r);
    if (timing) {
      const auto w = static_cast<std::size_t>(pool->worker());
      seconds[(w * graph.nodes.size() + static_cast<std::size_t>(e.node)) * 2 + (back ? 1 : 0)] +=
          now_s() - t;
    }
    store_narrowly(r, back ? e.b.din : e.b.out);
    if (back) return;
    for (const auto& a : e.aux)
      shard_aux[static_cast<std::size_t>(shard) * graph.aux.size() + static_cast<std::size_t>(a.index)] =
          graph.aux[static_cast<std::size_t>(a.index)].weight * share(r) *
          static_cast<double>(*r.view(a.where).data);
    look(e, r, shard);
  }

  // What an op wrote, as the storage format holds it. Statistics that it keeps for itself stay as they are.
  void store_narrowly(Run<R>& r, const std::vector<Binding>& written) const {
    if constexpr (std::is_same_v<R, float>) {
      const Format format = storage_format(o.precision);
      if (format == Format::fp32) return;
      for (const Binding& b : written) round_to(format, r.view(b));
    }
  }

  void look(const Step& e, Run<R>& r, std::int64_t shard) {
    for (const Look& l : e.looks) {
      Hook<R>& hook = *hooks[static_cast<std::size_t>(l.hook)];
      if (r.observed_ || hook.rewrites()) hook.at(l.name, l.dir, r.view(l.where), static_cast<int>(shard));
    }
  }

  void begin(std::span<const std::int32_t> xs, std::span<const std::int32_t> ys, CallKey k) {
    const auto want = static_cast<std::size_t>(o.batch * o.block);
    if (xs.size() != want || ys.size() != want)
      fail("[plan] {} tokens and {} targets, the plan was made for {} sequences of {}", xs.size(), ys.size(),
           o.batch, o.block);
    x = xs;
    y = ys;
    key = k;
    tokens = std::ranges::count_if(ys, [](std::int32_t t) { return t >= 0; });
    std::ranges::fill(shard_loss, 0.0);
    std::ranges::fill(shard_terms, 0.0);
    std::ranges::fill(shard_aux, 0.0);
  }

  void begin_hooks() {
    if (observed)
      for (Hook<R>* h : hooks) h->begin(static_cast<int>(s.n_shard));
  }
  void merge_hooks() {
    if (observed)
      for (Hook<R>* h : hooks) h->merge(static_cast<int>(s.n_shard));
  }

  // Shards in waves, each with gradient memory of its own; `joined(done)` after each wave.
  template <class F, class G>
  void each_wave(const F& shard, const G& joined) {
    for (std::int64_t from = 0; from < s.n_shard; from += TreeSum<R>::wave) {
      const std::int64_t n = std::min(TreeSum<R>::wave, s.n_shard - from);
      if (one_shard)
        shard(0);  // not as a piece of the pool: its ops are
      else
        pool->run(n, [&](std::int64_t i) { shard(from + i); });
      joined(from + n);
    }
  }

  void run_once_forward() {
    Run<R> r = make_run(0);
    for (const Step& e : s.once_forward) execute(e, r, 0);
  }

  void run_shard(std::int64_t shard) {
    Run<R> r = make_run(shard);
    for (const Step& e : s.shard) execute(e, r, shard);
  }

  // After the tree sum; its own sinks go on adding to the total.
  void run_once_backward() {
    Run<R> r = make_run(0);
    r.base_[static_cast<std::size_t>(Space::grad)] = sums.total();
    for (const Step& e : s.once_backward) execute(e, r, 0);
  }

  LossResult result() const {
    LossResult l;
    l.tokens = tokens;
    if (tokens == 0) return l;
    for (double d : shard_loss) l.cross_entropy += d;
    l.cross_entropy = l.cross_entropy * o.loss_factor / static_cast<double>(tokens);
    for (double d : shard_terms) l.loss += d;
    l.loss = l.cross_entropy + l.loss * o.loss_factor / static_cast<double>(tokens);
    for (double d : shard_aux) l.loss += d;
    return l;
  }

  void prepare() {
    std::map<int, OpBindings> merged;
    for (const auto* list : {&s.once_forward, &s.shard, &s.once_backward})
      for (const Step& e : *list) {
        OpBindings& b = merged[e.node];
        if (e.phase != Phase::backward) {
          b.in = e.b.in;
          b.out = e.b.out;
          b.kept = e.b.kept;
          b.state = e.b.state;
          b.stat = e.b.stat;
        } else {
          b.dout = e.b.dout;
          b.din = e.b.din;
        }
      }
    tokens = 1;
    for (auto& [node, b] : merged) {
      b.dout.resize(std::max(b.dout.size(), b.out.size()));
      b.din.resize(std::max(b.din.size(), b.in.size()));
      for (std::int64_t shard : {std::int64_t{0}, s.n_shard - 1}) {
        Run<R> r = make_run(shard);
        r.b_ = &b;
        const auto bytes = graph.nodes[static_cast<std::size_t>(node)].op->prepare(r, products);
        scratch_bytes = std::max(scratch_bytes, round_up(bytes, cache_line));
      }
    }
  }
};

template <class R>
Plan<R>::Plan(GraphOf<R> graph, ParamStore<R>& store, const PlanOptions& o, ThreadPool& pool,
              std::span<Hook<R>* const> hooks)
    : p_(std::make_unique<Impl>()) {
  Impl& p = *p_;
  p.graph = std::move(graph);
  p.store = &store;
  p.o = o;
  p.pool = &pool;
  p.hooks.assign(hooks.begin(), hooks.end());
  if (!(store.layout() == p.graph.layout())) fail("[plan] the parameters belong to another model");
  p.s = make_schedule(p.graph, store.layout(), o, hooks);
  if (static_cast<double>(p.s.arena) + static_cast<double>(p.s.leaf_grads) > 1e12)
    bad_input("[plan] {:.1e} numbers a shard fit no machine; lower train.batch_size or model.block_size",
              static_cast<double>(p.s.arena) + static_cast<double>(p.s.leaf_grads));
  p.one_shard = p.graph.cross_batch();
  p.shard_loss.resize(static_cast<std::size_t>(p.s.n_shard));
  p.shard_terms.resize(p.shard_loss.size());
  p.shard_aux.resize(static_cast<std::size_t>(p.s.n_shard) * p.graph.aux.size());
  p.norm_parts.resize(
      static_cast<std::size_t>((store.layout().n_param_elements + norm_slice - 1) / norm_slice));

  if (o.mode == Mode::train) p.sums = TreeSum<R>(p.s.n_shard, p.s.leaf_grads);
  p.once = Arena(static_cast<std::size_t>(p.s.once) * sizeof(R));
  const auto workers = static_cast<std::size_t>(pool.size());
  p.arena_bytes = round_up(static_cast<std::size_t>(p.s.arena) * sizeof(R), 4096);
  // Whichever worker is free takes the next shard, so each has an arena.
  p.arena = Arena(p.arena_bytes * (p.one_shard ? 1 : workers));
  p.prepare();
  p.scratch = Arena(p.scratch_bytes * workers);
  for (std::size_t w = 0; w < workers; ++w) p.scratch_of.push_back(p.scratch.data() + w * p.scratch_bytes);
}

template <class R>
Plan<R>::~Plan() = default;
template <class R>
Plan<R>::Plan(Plan&&) noexcept = default;

template <class R>
const PlanOptions& Plan<R>::options() const {
  return p_->o;
}
template <class R>
const GraphOf<R>& Plan<R>::graph() const {
  return p_->graph;
}
template <class R>
const Schedule& Plan<R>::schedule() const {
  return p_->s;
}

template <class R>
void Plan<R>::observe(bool on) {
  p_->observed = on;
}

template <class R>
void Plan<R>::run_products_only() {
  Impl& p = *p_;
  p.each_wave(
      [&p](std::int64_t i) {
        Run<R> r = p.make_run(i);
        for (const Step& e : p.s.shard) {
          const Op<R>& op = *p.graph.nodes[static_cast<std::size_t>(e.node)].op;
          if (op.info().kind != "linear") continue;
          r.b_ = &e.b;
          e.phase == Phase::backward ? op.backward(r) : op.forward(r);
        }
      },
      [](std::int64_t) {});
}

template <class R>
LossResult Plan<R>::loss(std::span<const std::int32_t> x, std::span<const std::int32_t> y, CallKey key) {
  Impl& p = *p_;
  p.begin(x, y, key);
  p.begin_hooks();
  p.run_once_forward();
  auto forward = [&p](std::int64_t i) {
    Run<R> r = p.make_run(i);
    for (std::size_t e = 0; e < p.s.n_forward; ++e) p.execute(p.s.shard[e], r, i);
  };
  if (p.one_shard)
    forward(0);
  else
    p.pool->run(p.s.n_shard, forward);
  p.merge_hooks();
  return p.result();
}

template <class R>
LossResult Plan<R>::loss_and_grad(std::span<const std::int32_t> x, std::span<const std::int32_t> y,
                                  CallKey key) {
  Impl& p = *p_;
  if (p.o.mode != Mode::train) fail("[plan] gradients asked of a plan made for evaluation");
  p.begin(x, y, key);
  p.begin_hooks();
  p.run_once_forward();
  p.each_wave([&p](std::int64_t i) { p.run_shard(i); },
              [&p](std::int64_t done) { p.sums.end_wave(done, *p.pool); });
  p.run_once_backward();
  if constexpr (std::is_same_v<R, float>) {
    const std::span<float> g = grads();
    const auto n = static_cast<std::int64_t>(g.size());
    round_to(storage_format(p.o.precision), {g.data(), 1, n, n});
  }
  p.merge_hooks();
  return p.result();
}

template <class R>
void Plan<R>::commit() {
  Impl& p = *p_;
  Run<R> r = p.make_run(0);
  for (std::size_t i = 0; i < p.s.n_forward; ++i) {
    const Step& e = p.s.shard[i];
    if (e.b.state.empty()) continue;
    r.b_ = &e.b;
    p.graph.nodes[static_cast<std::size_t>(e.node)].op->commit(r);
  }
}

template <class R>
std::span<R> Plan<R>::grads() const {
  return {p_->sums.total(), static_cast<std::size_t>(p_->store->layout().n_param_elements)};
}

template <class R>
View<R> Plan<R>::grad(std::string_view param) const {
  const ParamInfo& i = p_->store->layout().find(param);
  return {grads().data() + i.offset, i.spec.shape.rows(), i.spec.shape.cols(), i.spec.shape.cols()};
}

template <class R>
double Plan<R>::grad_norm() {
  Impl& p = *p_;
  const auto g = grads();
  const auto n = static_cast<std::int64_t>(g.size());
  p.pool->run(static_cast<std::int64_t>(p.norm_parts.size()), [&](std::int64_t i) {
    const std::int64_t at = i * norm_slice, len = std::min(norm_slice, n - at);
    p.norm_parts[static_cast<std::size_t>(i)] = sum_squares(View<const R>{g.data() + at, 1, len, len});
  });
  double total = 0;
  for (double d : p.norm_parts) total += d;
  return std::sqrt(total);
}

template <class R>
std::optional<NonFinite> Plan<R>::first_non_finite(std::span<const std::int32_t> x,
                                                   std::span<const std::int32_t> y, CallKey key) {
  Impl& p = *p_;
  std::optional<NonFinite> found;
  auto check = [&](const std::string& name, View<const R> v, int shard) {
    if (found || !v || all_finite(v)) return;
    for (std::int64_t i = 0; i < v.rows; ++i)
      for (std::int64_t j = 0; j < v.cols; ++j)
        if (!std::isfinite(v.row(i)[j])) {
          found = NonFinite{name, shard, i * v.cols + j, static_cast<double>(v.row(i)[j])};
          return;
        }
  };
  for (const ParamInfo& i : p.store->layout().params) check("parameter " + i.spec.name, p.store->view(i), -1);
  if (found) return found;

  p.replay = true;
  p.begin(x, y, key);
  auto watch = [&](const Step& e, Run<R>& r, std::int64_t shard) {
    p.execute(e, r, shard);
    const Node<R>& n = p.graph.nodes[static_cast<std::size_t>(e.node)];
    const int at = n.once ? -1 : static_cast<int>(shard);
    if (e.phase == Phase::backward) {
      for (std::size_t k = 0; k < n.spec.in.size(); ++k)
        check("gradient of " + p.graph.name(n.spec.in[k]), r.din(k).v, at);
    } else {
      for (std::size_t k = 0; k < n.out.size(); ++k) check(p.graph.name(n.out[k]), r.out(k), at);
      const double loss = p.shard_loss[static_cast<std::size_t>(shard)];
      if (n.spec.is_loss && !found && !std::isfinite(loss)) found = NonFinite{"loss", at, 0, loss};
    }
    return found.has_value();
  };
  auto hunt = [&] {
    Run<R> r0 = p.make_run(0);
    for (const Step& e : p.s.once_forward)
      if (watch(e, r0, 0)) return;
    for (std::int64_t shard = 0; shard < p.s.n_shard; ++shard) {
      Run<R> r = p.make_run(shard);
      for (const Step& e : p.s.shard)
        if (watch(e, r, shard)) return;
      if (p.o.mode == Mode::train && ((shard + 1) % TreeSum<R>::wave == 0 || shard + 1 == p.s.n_shard))
        p.sums.end_wave(shard + 1, *p.pool);
    }
    r0.base_[static_cast<std::size_t>(Binding::Space::grad)] = p.sums.total();
    for (const Step& e : p.s.once_backward)
      if (watch(e, r0, 0)) return;
  };
  hunt();
  p.replay = false;
  return found;
}

template <class R>
std::vector<typename Plan<R>::Part> Plan<R>::memory() const {
  const Impl& p = *p_;
  return {{"activations and their gradients", p.arena.bytes()},
          {"scratch", p.scratch.bytes()},
          {"gradients of shards and their sum", p.sums.bytes()},
          {"once-a-step tensors", p.once.bytes()}};
}

template <class R>
std::size_t Plan<R>::bytes() const {
  std::size_t n = 0;
  for (const Part& part : memory()) n += part.bytes;
  return n;
}

template <class R>
std::vector<std::pair<ProductShape, std::string>> Plan<R>::products() const {
  return p_->products.list();
}

template <class R>
void Plan<R>::time_ops(bool on) {
  p_->timing = on;
  p_->seconds.assign(on ? static_cast<std::size_t>(p_->pool->size()) * p_->graph.nodes.size() * 2 : 0, 0.0);
}

template <class R>
std::vector<std::pair<std::string, double>> Plan<R>::op_seconds() {
  Impl& p = *p_;
  std::map<std::string, double> by;
  for (std::size_t i = 0; i < p.seconds.size(); ++i) {
    const Node<R>& n = p.graph.nodes[i / 2 % p.graph.nodes.size()];
    by[std::string(n.op->info().kind) + (i % 2 ? " backward" : " forward")] += p.seconds[i];
    p.seconds[i] = 0;
  }
  return {by.begin(), by.end()};
}

template class Plan<float>;
template class Plan<double>;

}  // namespace plumb
