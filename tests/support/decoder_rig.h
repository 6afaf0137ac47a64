// A decoder ready to run on made-up tokens.
#pragma once
#include <memory>
#include <vector>

#include "plumb/base/rng.h"
#include "plumb/base/sha256.h"
#include "plumb/model/decoder.h"

namespace plumb::test {

/// Uniform tokens; targets are the next ones.
struct Tokens {
  std::vector<std::int32_t> x, y;
  Tokens(std::int64_t n, std::int64_t vocab_size, std::uint64_t seed = 1) {
    const Stream s = stream(seed, "test tokens");
    for (std::int64_t i = 0; i <= n; ++i) {
      const auto t = static_cast<std::int32_t>(
          s.below(static_cast<std::uint64_t>(vocab_size), 0, 0, static_cast<std::uint64_t>(i)));
      if (i < n) x.push_back(t);
      if (i > 0) y.push_back(t);
    }
  }
};

template <class R>
struct DecoderRig {
  DecoderSpec spec;
  ThreadPool pool;
  ParamStore<R> store;
  Plan<R> plan;
  Tokens tokens;

  DecoderRig(const DecoderSpec& s, PlanOptions o, int threads, std::vector<Hook<R>*> hooks = {}, std::uint64_t seed = 1)
      : spec(s),
        pool(threads),
        store(decoder_layout<R>(s, Components{}), seed),
        plan(make_plan<R>(s, Components{}, store, o, pool, hooks)),
        tokens(o.batch * o.block, s.vocab_size, seed) {}

  LossResult step(CallKey key = {}) { return plan.loss_and_grad(tokens.x, tokens.y, key); }
  /// Of the gradients of the last step, bit for bit.
  std::string grad_hash() const {
    const auto bytes = std::as_bytes(plan.grads());
    return sha256_hex({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
};

inline DecoderSpec small_spec(std::int64_t n_layer = 3) {
  DecoderSpec s;
  s.n_layer = n_layer, s.d_model = 32, s.n_head = 4, s.d_head = 8, s.d_ff = 48, s.block_size = 16, s.vocab_size = 61;
  return s;
}

}  // namespace plumb::test
