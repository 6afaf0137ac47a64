// A few parameters of several roles and shapes, and an optimiser on them.
#pragma once
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "plumb/base/rng.h"
#include "plumb/optim/optim.h"
#include "plumb/tensor/arena.h"

namespace plumb::test {

/// Numbers in [-1, 1) that a float holds: the generator of optim_reference.py.
inline std::vector<double> drawn(std::int64_t n, std::uint64_t state) {
  std::vector<double> v;
  for (std::int64_t i = 0; i < n; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    v.push_back((static_cast<double>(state >> 40) - 0x1p23) / 0x1p23);
  }
  return v;
}

struct NamedParam {
  std::string name;
  Role role;
  Shape shape;
};

inline ParamLayout layout_of(const std::vector<NamedParam>& params) {
  ParamLayout l;
  for (const auto& [name, role, shape] : params) {
    l.params.push_back({{.name = name, .role = role, .shape = shape}, {}, l.n_param_elements});
    l.n_param_elements += static_cast<std::int64_t>(round_up(static_cast<std::size_t>(shape.size()), 16));
  }
  return l;
}

/// Every kind of parameter that a rule may tell apart; one matrix is longer than a piece of work.
inline ParamLayout mixed_layout() {
  return layout_of({{"embed", Role::token_embed, {{'V', 11}, {'C', 6}}},
                    {"q", Role::q, {{'C', 6}, {'C', 6}}},
                    {"in", Role::ffn_in, {{'F', 150}, {'C', 130}}},
                    {"out", Role::ffn_out, {{'C', 6}, {'F', 10}}},
                    {"bias", Role::bias, {{'F', 10}}},
                    {"gain", Role::norm_gain, {{'C', 6}}},
                    {"readout", Role::readout, {{'V', 11}, {'C', 6}}}});
}

template <class R>
struct OptimRig {
  ParamLayout layout;
  ParamStore<R> store;
  std::vector<R> grads;
  std::unique_ptr<Optimizer<R>> optimizer;
  ThreadPool pool;

  OptimRig(const OptimEntry& e, const ParamLayout& l, const OptimSpec& s, int threads = 1)
      : layout(l),
        store(l, 0),
        grads(static_cast<std::size_t>(l.n_param_elements)),
        optimizer(e.make<R>(l, s, threads)),
        pool(threads) {
    std::uint64_t seed = 1;
    for (const ParamInfo& p : l.params) fill(store.view(p), seed++);
  }
  OptimRig(const std::string& name, const ParamLayout& l, const OptimSpec& s, int threads = 1)
      : OptimRig(choose_optimizer(optim_table(), name), l, s, threads) {}

  static void fill(View<R> to, std::uint64_t seed, double scale = 1) {
    const auto v = drawn(to.size(), seed);
    for (std::size_t i = 0; i < v.size(); ++i) to.data[i] = static_cast<R>(scale * v[i]);
  }
  View<R> grad(const ParamInfo& p) {
    const Shape& s = p.spec.shape;
    return {grads.data() + p.offset, s.rows(), s.cols(), s.cols()};
  }
  View<R> grad(const std::string& name) { return grad(layout.find(name)); }
  double grad_norm() const {
    double sum = 0;
    for (const R g : grads) sum += static_cast<double>(g) * static_cast<double>(g);
    return std::sqrt(sum);
  }
  /// Draws the gradients of `step`, and updates.
  Clipped step(std::int64_t step, const Rate& rate, double scale = 1) {
    for (std::size_t i = 0; i < layout.params.size(); ++i)
      fill(grad(layout.params[i]), 1000 * static_cast<std::uint64_t>(step) + i, scale);
    return optimizer->update(store, grads, grad_norm(), rate, pool);
  }
  std::vector<double> values(const std::string& name) const {
    const View<R> v = store.param(name);
    return {v.data, v.data + v.size()};
  }
};

}  // namespace plumb::test
