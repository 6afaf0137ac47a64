// Where norms stand. Placement is data: the block reads it, nothing asks "is this pre?".
#pragma once
#include <string_view>
#include <vector>

namespace plumb {

struct Placement {
  std::string_view name;
  std::string_view purpose = {};  // what it is for, in a sentence
  bool before = false;            // N on what the branch reads
  bool after_branch = false;      // N on what the branch writes
  bool after_add = false;         // N on the stream after the addition
  bool parallel = false;          // both branches read one stream
  std::string_view formula, paper;
};

/// All placements; `final_norm` is a setting of its own.
const std::vector<Placement>& placements();

}  // namespace plumb
