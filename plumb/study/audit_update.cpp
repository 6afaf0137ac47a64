// The update: an optimiser made as the run makes it, given gradients that are known.
#include <algorithm>
#include <cmath>
#include <map>

#include "plumb/study/audit.h"
#include "plumb/tensor/rounding.h"
#include "plumb/train/optimizer.h"

namespace plumb {
namespace {

// Parameters of their own, with an optimiser that has made no step.
struct Bench {
  ParamStore<float> store;
  std::unique_ptr<Optimizer<float>> optimizer;
  ThreadPool pool{1};
  std::vector<float> grads;
  explicit Bench(const Patient& p)
      : store(p.store.layout(), 0),
        optimizer(make_optimizer<float>(p.sick.train, p.components, store.layout(), 1)),
        grads(store.values().size(), 0.0F) {}
  void fill(float value) { std::ranges::fill(store.values(), value); }
  void update(double norm, const Rate& rate) { optimizer->update(store, grads, norm, rate, pool); }
};

double first(const Bench& b, const ParamInfo& i) { return static_cast<double>(*b.store.view(i).data); }

// Zero gradients: what changes, decays. Shrinkage of all that is no matrix over that of the matrices.
void audit_decay(const Patient& p, const Rate& peak, FactSheet& facts) {
  Bench b(p);
  b.fill(1);
  b.update(0, peak);
  double others = 0, matrices = 0;
  for (const ParamInfo& i : b.store.layout().params)
    (decays(i.spec.role) ? matrices : others) =
        std::max(decays(i.spec.role) ? matrices : others, 1 - first(b, i));
  facts.add("decay_of_matrices", matrices);
  facts.add("decay_of_others", others);
}

// Gradients of one size everywhere: by how much does each role move?
void audit_rates(const Patient& p, const Rate& peak, FactSheet& facts) {
  Bench b(p);
  b.fill(0);
  const double norm = std::sqrt(static_cast<double>(b.store.layout().count()));
  std::ranges::fill(b.grads, 1.0F);
  b.update(norm, peak);
  if (p.sick.train.optimizer != "muon") {  // whose matrices do not move element by element
    std::map<std::string_view, double> by_role;
    for (const ParamInfo& i : b.store.layout().params) {
      const std::string_view role = role_names[static_cast<std::size_t>(i.spec.role)];
      const double moved = std::abs(first(b, i)) / peak.lr;
      by_role[role] = std::max(by_role[role], moved);
    }
    Json moves = Json::object();
    for (const auto& [role, moved] : by_role) moves.add_member(std::string(role), moved);
    facts.add("moves_by_role", moves);
  }
  // Adam's first moment keeps the gradient as it was clipped.
  for (const ParamInfo& i : b.store.layout().params)
    for (const OptimState<float>& s : b.optimizer->state(i)) {
      if (s.kind != "m" || p.sick.train.optimizer != "adamw") continue;
      facts.add("clip_seen", static_cast<double>(*s.view.data) / (1 - p.sick.train.beta1));
      facts.add("clip_declared", clip_scale(norm, p.config.train.grad_clip));
      return;
    }
}

struct Moved {
  double kept = std::nan(""),
         ratio = std::nan("");  // share of the weights that change; size over the weights'
};

// The batch's own gradient: which parameters that have one do not change?
Moved first_update(const Patient& p, const Rate& rate) {
  Bench b(p);
  std::ranges::copy(p.store.values(), b.store.values().begin());
  std::ranges::copy(p.grads(), b.grads.begin());
  double squares = 0;
  for (const float g : b.grads) squares += static_cast<double>(g) * static_cast<double>(g);
  b.update(std::sqrt(squares), rate);
  const std::span<float> all = b.store.values();
  const auto n = static_cast<std::int64_t>(all.size());
  round_to(storage_format(precision_of(p.sick.train.precision)), {all.data(), 1, n, n});
  std::int64_t moved = 0, asked = 0;
  double change = 0, size = 0;
  // The blocks' matrices; where a branch that starts at 0 keeps every gradient from them, embedding and head.
  const auto has_gradient = [&](const ParamInfo& i) {
    const auto g = p.grads().subspan(static_cast<std::size_t>(i.offset), static_cast<std::size_t>(i.size()));
    return std::ranges::any_of(g, [](float v) { return v != 0; });
  };
  const auto counts = [](const ParamInfo& i, bool of_block) {
    return i.spec.shape.dims.size() == 2 && (i.spec.layer >= 0) == of_block;
  };
  const bool blocks = std::ranges::any_of(
      p.store.layout().params, [&](const ParamInfo& i) { return counts(i, true) && has_gradient(i); });
  for (const ParamInfo& i : p.store.layout().params) {
    if (!counts(i, blocks)) continue;
    for (std::int64_t e = i.offset; e < i.offset + i.size(); ++e) {
      const auto at = static_cast<std::size_t>(e);
      const double before = static_cast<double>(p.store.values()[at]), after = static_cast<double>(all[at]);
      if (p.grads()[at] == 0) continue;
      change += (after - before) * (after - before), size += before * before;
      ++asked, moved += after != before;
    }
  }
  Moved m;
  if (asked > 0) m.kept = static_cast<double>(moved) / static_cast<double>(asked);
  if (size > 0) m.ratio = std::sqrt(change / size);
  return m;
}

// At the peak, and when four fifths of the run are over and the rate has come down.
void audit_step(const Patient& p, const Rate& peak, FactSheet& facts) {
  const Moved first = first_update(p, peak),
              late = first_update(p, rate_at(p.sick.train, p.sick.train.steps * 4 / 5));
  if (!std::isnan(first.kept)) facts.add("updates_kept", first.kept);
  if (!std::isnan(late.kept)) facts.add("updates_kept_late", late.kept);
  if (!std::isnan(first.ratio)) facts.add("first_update_ratio", first.ratio);
}

}  // namespace

void audit_update(Patient& p, FactSheet& facts) {
  const Rate peak{p.sick.train.lr, 1};
  audit_decay(p, peak, facts);
  audit_rates(p, peak, facts);
  audit_step(p, peak, facts);
  // What they are kept in: fp32 values are hardly ever those of bf16.
  std::int64_t narrow = 0, all = 0;
  for (const float v : p.store.values())
    if (v != 0 && v != 1) ++all, narrow += to_bf16(v) == v;
  if (all > 0) facts.add("weights_in_bf16", static_cast<double>(narrow) / static_cast<double>(all));
  facts.add("lr_first", rate_at(p.sick.train, 0).lr);
  facts.add("lr_first_declared", rate_at(p.config.train, 0).lr);
  facts.add("lr_peak", p.sick.train.lr);
  double most = 0, sum = 0;
  for (std::int64_t s = 0; s < p.sick.train.steps; ++s) {
    Rate r = rate_at(p.sick.train, s);
    if (s == p.sick.train.steps / 2) r.lr *= p.faults.spike;
    most = std::max(most, r.lr), sum += r.lr;
  }
  facts.add("lr_sum", sum);
  facts.add("lr_most", most);
}

}  // namespace plumb
