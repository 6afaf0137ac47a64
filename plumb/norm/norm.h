// Normalisation layers. One component a file; the table is generated from the file names.
#pragma once
#include "plumb/plan/builder.h"
#include "plumb/spec/entry.h"

namespace plumb {

template <class R>
struct Norm {
  virtual ~Norm() = default;
  /// Adds the norm of x (B, T, C) to the graph; `name` ("blocks.3.attn.norm") prefixes its parameters.
  virtual Value build(Builder<R>& b, Value x, const std::string& name, int layer) const = 0;
};

using NormEntry = FamilyEntry<Norm>;
template <template <class> class T>
constexpr NormEntry norm_entry(const Entry& e) {
  return make_entry<Norm, T>(e);
}
std::vector<NormEntry> norm_table();

}  // namespace plumb
