// A graph made ready to run: memory laid out beforehand, nothing allocated in a step.
#pragma once
#include <optional>
#include <string>

#include "plumb/base/threads.h"
#include "plumb/plan/linear.h"
#include "plumb/plan/schedule.h"
#include "plumb/plan/tree_sum.h"

namespace plumb {

/// What a call computed. Nats a token, over tokens whose target counts.
struct LossResult {
  double loss = 0;  // cross-entropy, its terms (LossTerms) and auxiliary losses: what is minimised
  double cross_entropy = 0;
  std::int64_t tokens = 0;
};

/// The first tensor, in order of computation, that is not finite.
struct NonFinite {
  std::string tensor;  // "blocks.3.ffn.pre", "parameter blocks.3.attn.q.weight", "gradient of …"
  int shard = -1;
  std::int64_t element = 0;
  double value = 0;
};

/// Which numbers a call works on, for random streams: updates already applied, and the global number of the first
/// sequence of the call.
struct CallKey {
  std::int64_t step = 0, first_sample = 0;
  std::int64_t position = 0;  // of the call's first token in its sequence; only decoding has any but 0
};

template <class R>
class Plan {
 public:
  /// Makes every product on this thread. `store` must have the graph's layout, and outlives the plan, as `pool` and the
  /// hooks do.
  Plan(GraphOf<R> graph, ParamStore<R>& store, const PlanOptions&, ThreadPool& pool,
       std::span<Hook<R>* const> hooks = {});
  ~Plan();
  Plan(Plan&&) noexcept;

  const PlanOptions& options() const;
  const GraphOf<R>& graph() const;
  const Schedule& schedule() const;

  /// Whether the hooks see the calls that follow (they do from the start). Hooks that rewrite always
  /// do.
  void observe(bool on);

  /// x, y: batch * block token ids and targets. Forward only.
  LossResult loss(std::span<const std::int32_t> x, std::span<const std::int32_t> y, CallKey key = {});
  /// Also fills `grads()`: of the mean loss, summed over shards by the fixed tree. Shards run on the pool's threads.
  LossResult loss_and_grad(std::span<const std::int32_t> x, std::span<const std::int32_t> y, CallKey key = {});
  /// Pending state becomes state; call once a step, after it is known to be finite.
  void commit();

  /// In the layout of the store. Valid until the next call.
  std::span<R> grads() const;
  View<R> grad(std::string_view param) const;
  /// Euclidean norm over all parameters (shared ones once), in double, in a fixed order.
  double grad_norm();

  /// Runs the same call again with a check after every op. Changes no state. Empty: all is finite.
  std::optional<NonFinite> first_non_finite(std::span<const std::int32_t> x, std::span<const std::int32_t> y,
                                            CallKey key = {});

  struct Part {
    std::string what;
    std::size_t bytes;
  };
  /// Memory of the plan by part, known before it runs; parameters, saved state and the optimiser's are not in it.
  std::vector<Part> memory() const;
  std::size_t bytes() const;
  /// Matrix products beside the implementation that runs each.
  std::vector<std::pair<ProductShape, std::string>> products() const;

  /// Runs only the matrix products of every shard, on whatever the memory holds: what a step cannot be faster than with
  /// them. Gradients are garbage afterwards.
  void run_products_only();

  /// Seconds by "kind forward" / "kind backward", summed over threads, since the last call; counting starts with
  /// `time_ops(true)`.
  void time_ops(bool on);
  std::vector<std::pair<std::string, double>> op_seconds();

 private:
  struct Impl;
  std::unique_ptr<Impl> p_;
};

}  // namespace plumb
