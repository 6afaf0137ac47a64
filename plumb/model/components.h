// All component tables as one value. A program outside the tree appends its own entries to its own copy.
#pragma once
#include "plumb/attention/attention.h"
#include "plumb/fault/fault.h"
#include "plumb/ffn/ffn.h"
#include "plumb/init/init.h"
#include "plumb/model/placement.h"
#include "plumb/norm/norm.h"
#include "plumb/optim/optim.h"
#include "plumb/position/position.h"
#include "plumb/residual/residual.h"
#include "plumb/weight/weight.h"

namespace plumb {

struct Components {
  std::vector<NormEntry> norm = norm_table();
  std::vector<WeightEntry> weight = weight_table();
  std::vector<ResidualEntry> residual = residual_table();
  std::vector<PositionEntry> position = position_table();
  std::vector<AttentionEntry> attention = attention_table();
  std::vector<FfnEntry> ffn = ffn_table();
  std::vector<InitEntry> init = init_table();
  std::vector<OptimEntry> optim = optim_table();
  std::vector<Placement> placement = placements();
  std::vector<FaultEntry> fault = fault_table();
};

/// Calls f(config key, what one is called, table) for every table whose key names one entry.
template <class F>
void each_table(const Components& c, F f) {
  f("model.norm", "norm", c.norm);
  f("model.weight_param", "weight", c.weight);
  f("model.residual", "residual", c.residual);
  f("model.position", "position", c.position);
  f("model.attention.kind", "attention kind", c.attention);
  f("model.ffn.kind", "ffn", c.ffn);
  f("init.scheme", "init", c.init);
  f("model.placement", "placement", c.placement);
  f("train.optimizer", "optimizer", c.optim);
}

}  // namespace plumb
