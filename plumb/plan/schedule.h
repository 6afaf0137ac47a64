// From graph to schedule: the order in which ops run forward, recompute and backward, where every tensor lies, and who
// looks at it. All decisions are made here, once; running only follows.
#pragma once
#include <string>
#include <vector>

#include "plumb/kernel/rows.h"
#include "plumb/plan/graph.h"

namespace plumb {

struct PlanOptions {
  Mode mode = Mode::train;
  std::int64_t batch = 32, block = 64;  // sequences of a call, positions of a sequence
  std::int64_t shard_tokens = 512;      // whole sequences, at least one
  std::int64_t context = 0;             // > 0: decoding, one position a call; attention keeps this many positions
  Precision precision = Precision::fp32;  // of a float plan; make_plan takes the model's
  int recompute = 0;                    // 0: keep activations; k: keep only the inputs of every k blocks
  LossTerms loss = {};                  // minimised beside the cross-entropy
  double loss_factor = 1;               // times all that is minimised; not 1 in a run that is made to count wrongly
};

enum class Phase : std::uint8_t { forward, reforward, backward };

/// A look of one hook at one named tensor.
struct Look {
  int hook = 0;
  std::string name;
  Dir dir = Dir::forward;
  Binding where;
};

struct Step {
  int node = 0;
  Phase phase = Phase::forward;
  OpBindings b;
  std::vector<Look> looks;       // after a forward entry, before a backward one
  std::vector<Binding> clear;    // gradients nobody wrote, zeroed before a backward entry
  struct Aux {
    int index = 0;               // into Graph::aux
    Binding where;               // forward: the value; backward: its gradient, to be seeded
  };
  std::vector<Aux> aux;
};

struct Schedule {
  std::vector<Step> once_forward, shard, once_backward;
  std::size_t n_forward = 0;               // entries of `shard` before the first backward or recomputation
  // sizes in elements
  std::int64_t arena = 0;                  // of one worker
  std::int64_t once = 0;
  std::int64_t leaf_grads = 0;             // parameters first, at their own offsets, then once-a-step values
  std::int64_t sequences = 0;              // of a full shard
  std::int64_t n_shard = 0, tail = 0;      // sequences of the last shard (0: it is full)
};

template <class R>
Schedule make_schedule(const GraphOf<R>&, const ParamLayout&, const PlanOptions&, std::span<Hook<R>* const> hooks);

/// Offsets for buffers that live over intervals of the schedule, so that no two alive at one time overlap (largest first,
/// lowest offset that fits). Returns the total size.
struct Lifetime {
  std::int64_t size = 0;
  std::int64_t first = -1, last = -1;
  std::int64_t offset = 0;
  void use(std::int64_t at) {
    if (first < 0) first = at;
    first = std::min(first, at);
    last = std::max(last, at);
  }
};
std::int64_t place(std::vector<Lifetime>&);

}  // namespace plumb
