// A small model that runs: tokens, parameters away from every special value, one plan.
#pragma once
#include <algorithm>
#include <cmath>
#include <functional>
#include <span>

#include "plumb/base/rng.h"
#include "tests/conformance/harness.h"

namespace plumb::conformance {

struct Size {
  std::int64_t batch = 3, block = 5;
};

struct Scales {
  double weights = 1, embeddings = 1;
};

struct Tokens {
  std::vector<std::int32_t> x, y;
};

/// Random tokens; among seven targets or more one does not count.
inline Tokens tokens(const DecoderSpec& s, Size size) {
  const Stream draw = stream(7, "conformance/tokens");
  const auto n = static_cast<std::size_t>(size.batch * size.block);
  Tokens t;
  for (std::size_t i = 0; i < n; ++i) {
    t.x.push_back(static_cast<std::int32_t>(draw.below(static_cast<std::uint64_t>(s.vocab_size), 0, 0, i)));
    t.y.push_back(static_cast<std::int32_t>(draw.below(static_cast<std::uint64_t>(s.vocab_size), 0, 1, i)));
  }
  if (n >= 7) t.y[6] = static_cast<std::int32_t>(s.ignore_index);
  return t;
}

inline bool is_matrix(Role r) {
  switch (r) {
    case Role::q:
    case Role::k:
    case Role::v:
    case Role::attn_out:
    case Role::ffn_in:
    case Role::ffn_gate:
    case Role::ffn_out:
    case Role::router:
    case Role::readout:
      return true;
    default:
      return false;
  }
}

/// Draws every parameter so that no gradient is trivially zero: matrices N(0, 1/fan_in), tables N(0, 1), both
/// times their scale; what starts at a constant (gains, biases, zero-initialised scalars) at the constant +
/// N(0, 0.3²).
template <class R>
void randomise(ParamStore<R>& store, Scales scale, std::uint64_t seed) {
  for (const ParamInfo& p : store.layout().params) {
    const Stream draw = stream(seed, "conformance/" + p.spec.name);
    const bool table = p.spec.role == Role::token_embed || p.spec.role == Role::pos_embed;
    double base = 0, std = 0.3;
    if (is_matrix(p.spec.role))
      std = scale.weights / std::sqrt(static_cast<double>(p.spec.fan_in));
    else if (table)
      std = scale.embeddings;
    else if (p.rule.kind == ParamRule::Kind::constant)
      base = p.rule.scale;
    const View<R> v = store.view(p);
    // Drawn as float, so that a float and a double model may hold the same numbers.
    for (std::int64_t i = 0; i < v.size(); ++i)
      v.data[i] =
          static_cast<R>(static_cast<float>(base + std * draw.normal(0, 0, static_cast<std::uint64_t>(i))));
  }
}

inline ThreadPool& pool(int threads) {
  static ThreadPool one(1), two(2), four(4);
  return threads == 1 ? one : threads == 2 ? two : four;
}

template <class R>
struct Rig {
  struct Options {
    Size size = {};
    Scales scale = {};
    std::uint64_t seed = 1;
    int threads = 1, recompute = 0;
    Mode mode = Mode::train;
    bool own_start = false;  // the init rule's numbers instead of `randomise`
    std::vector<Hook<R>*> hooks = {};
  };

  Rig(const Subject& subject, const Options& o)
      : spec(fitting(subject.spec, o)),
        store(decoder_layout<R>(spec, *subject.components), o.seed),
        t(tokens(spec, o.size)),
        plan(make_plan<R>(spec, *subject.components, store,
                          {.mode = o.mode,
                           .batch = o.size.batch,
                           .block = o.size.block,
                           .shard_tokens = 2 * o.size.block,
                           .recompute = o.recompute},
                          pool(o.threads), o.hooks)) {
    if (!o.own_start) randomise(store, o.scale, o.seed);
  }
  Rig(const Rig&) = delete;
  Rig& operator=(const Rig&) = delete;

  static DecoderSpec fitting(DecoderSpec s, const Options& o) {
    s.block_size = std::max(s.block_size, o.size.block);
    if (!o.own_start)
      s.init.std = 1;  // what `randomise` draws tables with; NF blocks build the expected variance in
    return s;
  }
  LossResult loss() { return plan.loss(t.x, t.y); }
  LossResult loss_and_grad() { return plan.loss_and_grad(t.x, t.y); }
  const std::vector<ParamInfo>& params() const { return store.layout().params; }
  View<R> grad(const ParamInfo& p) const { return plan.grad(p.spec.name); }

  DecoderSpec spec;
  ParamStore<R> store;
  Tokens t;
  Plan<R> plan;
};

/// Element of largest absolute value.
template <class R>
std::int64_t largest(View<R> v) {
  std::int64_t at = 0;
  for (std::int64_t i = 1; i < v.size(); ++i)
    if (std::abs(v.data[i]) > std::abs(v.data[at])) at = i;
  return at;
}

/// Points whose tensors exist only when asked for, by building another graph.
inline bool interior(std::string_view point) {
  return point.ends_with(".scores") || point.ends_with(".weights");
}

}  // namespace plumb::conformance
