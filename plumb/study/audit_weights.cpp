// The weights as they were drawn, and slots of the feed-forward networks that never fire.
#include <algorithm>
#include <cmath>
#include <limits>

#include "plumb/base/median.h"
#include "plumb/study/audit.h"

namespace plumb {
namespace {

bool writes(Role r) { return r == Role::attn_out || r == Role::ffn_out; }

double dead_share(const Grid<float>& act) {
  std::int64_t dead = 0;
  for (std::int64_t j = 0; j < act.cols; ++j) {
    bool any = false;
    for (std::int64_t i = 0; i < act.rows && !any; ++i)
      any = row_of(act, i)[static_cast<std::size_t>(j)] != 0;
    dead += !any;
  }
  return act.cols > 0 ? static_cast<double>(dead) / static_cast<double>(act.cols) : 0;
}

}  // namespace

void audit_weights(Patient& p, const Seen& base, FactSheet& facts) {
  std::vector<double> gains;  // rms sqrt(fan_in): 1 keeps a variance
  double written = 0, n_written = 0, others = 0, n_others = 0, embed = 0;
  for (const ParamInfo& i : p.store.layout().params) {
    if (i.spec.shape.dims.size() != 2) continue;
    const double r = rms(View<const float>(p.store.view(i)));
    if (i.spec.role == Role::token_embed) embed = r;
    if (i.spec.layer < 0) continue;
    const auto n = static_cast<double>(i.size());
    if (!writes(i.spec.role)) gains.push_back(r * std::sqrt(static_cast<double>(i.spec.fan_in)));
    (writes(i.spec.role) ? written : others) += n * r * r;
    (writes(i.spec.role) ? n_written : n_others) += n;
  }
  if (!gains.empty()) {
    std::ranges::sort(gains);
    facts.add("weight_gain", middle_of(gains));
  }
  if (n_written > 0 && others > 0)
    facts.add("writer_std_ratio", std::sqrt(written / n_written / (others / n_others)));
  if (n_others > 0) facts.add("matrix_rms", std::sqrt(others / n_others));
  facts.add("embed_rms", embed);
  std::vector<double> dead;
  for (std::int64_t i = 0; i < p.spec.n_layer; ++i) {
    const Grid<float>* act = base.find(block_point(i, ".ffn.act"));
    dead.push_back(act ? dead_share(*act) : std::numeric_limits<double>::quiet_NaN());
  }
  facts.add("dead_slots", dead);
}

}  // namespace plumb
