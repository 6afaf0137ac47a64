// The weights as they were drawn, and slots of the feed-forward networks that never fire.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "plumb/base/median.h"
#include "plumb/base/rng.h"
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

void audit_weights(Patient& p, FactSheet& facts) {
  std::vector<double> gains;  // rms sqrt(fan_in): 1 keeps a variance
  double embed = 0;
  // Mean squares of the matrices that write to the stream and of the others: as they are, and times what a rule by
  // fan-in, and one by both fans, divides them by.
  struct Squares {
    double sum = 0, n = 0;
    void add(double squares, double count) { sum += squares, n += count; }
    double mean() const { return n > 0 ? sum / n : 0; }
  };
  std::array<Squares, 3> written, others;
  for (const ParamInfo& i : p.store.layout().params) {
    if (i.spec.shape.dims.size() != 2) continue;
    const double r = rms(View<const float>(p.store.view(i)));
    if (i.spec.role == Role::token_embed) embed = r;
    if (i.spec.layer < 0) continue;
    const auto n = static_cast<double>(i.size());
    if (!writes(i.spec.role)) gains.push_back(r * std::sqrt(static_cast<double>(i.spec.fan_in)));
    const auto in = static_cast<double>(i.spec.fan_in), out = static_cast<double>(i.spec.fan_out);
    const std::array<double, 3> by{1, in, in + out};
    for (std::size_t k = 0; k < by.size(); ++k)
      (writes(i.spec.role) ? written : others)[k].add(n * r * r * by[k], n);
  }
  if (!gains.empty()) {
    std::ranges::sort(gains);
    facts.add("weight_gain", middle_of(gains));
  }
  constexpr std::string_view names[] = {"writer_std_ratio", "writer_ratio_by_fan_in", "writer_ratio_by_fans"};
  for (std::size_t k = 0; k < std::size(names); ++k)
    if (written[k].n > 0 && others[k].mean() > 0)
      facts.add(names[k], std::sqrt(written[k].mean() / others[k].mean()));
  if (others[0].n > 0) facts.add("matrix_rms", std::sqrt(others[0].mean()));
  facts.add("embed_rms", embed);
  // What the slots read is drawn anew: tokens that come often and positions alone may silence a ReLU's slot in one batch.
  const Stream noise = stream(0, "audit pre-activations");
  const Seen drawn = p.pass(Mode::train, [&](std::string_view at, View<float> v, std::int64_t first) {
    if (!at.starts_with("blocks.") || !at.ends_with(".ffn.pre")) return;
    for (std::int64_t i = 0; i < v.rows; ++i)
      for (std::int64_t j = 0; j < v.cols; ++j)
        v.row(i)[j] = static_cast<float>(
            noise.uniform(0, static_cast<std::uint64_t>(first + i), static_cast<std::uint64_t>(j)) - 0.5);
  });
  std::vector<double> dead;
  for (std::int64_t i = 0; i < p.spec.n_layer; ++i) {
    const Grid<float>* act = drawn.find(block_point(i, ".ffn.act"));
    dead.push_back(act ? dead_share(*act) : std::numeric_limits<double>::quiet_NaN());
  }
  facts.add("dead_slots", dead);
}

}  // namespace plumb
