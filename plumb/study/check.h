// The invariants that the tutorial behind this lab prints, and the identities of its parts, measured on the spot.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plumb/base/json.h"
#include "plumb/model/components.h"

namespace plumb {

struct Check {
  std::string id, name;
  double value = 0;
  std::string expected;
  bool pass = false;
  std::string published = {};  // what the source printed; empty: nothing
};

/// Several checks that share their measurements: "a", "rope", …
struct CheckGroup {
  std::string_view name, about;
  std::vector<Check> (*run)(const Components&);
};
std::span<const CheckGroup> check_groups();

/// {"checks": [{"id", "name", "value", "expected", "pass", "published"}], "pass": bool}
Json checks_json(const std::vector<Check>&);

// -- the groups, by file
std::vector<Check> check_layer_norm(const Components&);
std::vector<Check> check_rms_norm(const Components&);
std::vector<Check> check_batch_norm(const Components&);
std::vector<Check> check_gradient_by_depth(const Components&);
std::vector<Check> check_kaiming(const Components&);
std::vector<Check> check_residual_growth(const Components&);
std::vector<Check> check_norm_responses(const Components&);
std::vector<Check> check_group_norm(const Components&);
std::vector<Check> check_rope(const Components&);
std::vector<Check> check_causality(const Components&);
std::vector<Check> check_caches(const Components&);
std::vector<Check> check_permutation(const Components&);
std::vector<Check> check_products(const Components&);
std::vector<Check> check_identity_starts(const Components&);

}  // namespace plumb
