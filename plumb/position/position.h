// Position codes: into the embedding, as a rotation of q and k, or as a bias on attention scores.
#pragma once
#include "plumb/kernel/rotation.h"
#include "plumb/kernel/score_bias.h"
#include "plumb/plan/builder.h"
#include "plumb/spec/entry.h"

namespace plumb {

template <class R>
struct Position {
  /// A bias on scores, and the parameter that it reads (id < 0: none). Shared by all layers.
  struct Bias {
    std::shared_ptr<const ScoreBias<R>> rule;
    Value table;
  };
  virtual ~Position() = default;
  /// x (B, T, C) → x with positions in it.
  virtual Value embed(Builder<R>&, Value x) const { return x; }
  /// Asked once a model.
  virtual Bias bias(Builder<R>&) const { return {}; }
  /// For sequences of so many positions; shared by all layers, but for those with a window where `local`
  /// gives another.
  virtual std::shared_ptr<const Rotation<R>> rotation(std::int64_t rows, bool local = false) const {
    (void)rows, (void)local;
    return {};
  }
};

using PositionEntry = FamilyEntry<Position>;
template <template <class> class T>
constexpr PositionEntry position_entry(const Entry& e) {
  return make_entry<Position, T>(e);
}
std::vector<PositionEntry> position_table();

}  // namespace plumb
