// Positions: the same token everywhere, so that only the position can tell one place from another. Where positions are
// added to the stream, its rows are compared; where they turn queries and keys or change scores, what the last query makes
// of each key.
#include <algorithm>

#include "plumb/study/audit.h"

namespace plumb {
namespace {

using Signature = std::vector<float>;

bool all_equal(const std::vector<Signature>& s) {
  return std::ranges::all_of(s, [&](const Signature& one) { return one == s.front(); });
}

// The smallest period; 0: none.
std::int64_t period_of(const std::vector<Signature>& s) {
  for (std::size_t by = 1; by < s.size(); ++by) {
    bool same = true;
    for (std::size_t t = by; t < s.size() && same; ++t) same = s[t] == s[t - by];
    if (same) return static_cast<std::int64_t>(by);
  }
  return 0;
}

// Which rows of a table of positions have a gradient? One row of many: every position reads it.
void audit_table(const Patient& p, FactSheet& facts) {
  for (const ParamInfo& i : p.store.layout().params) {
    if (i.spec.role != Role::pos_embed || i.spec.shape.dims.size() != 2) continue;
    const View<float> table = p.store.view(i);
    std::int64_t used = 0, last = -1;
    for (std::int64_t r = 0; r < table.rows; ++r) {
      const auto row = p.grads().subspan(static_cast<std::size_t>(i.offset + r * table.cols),
                                         static_cast<std::size_t>(table.cols));
      if (std::ranges::any_of(row, [](float g) { return g != 0; })) ++used, last = r;
    }
    facts.add("position_table_rows", table.rows);
    facts.add("position_rows_used", used);
    facts.add("position_last_row", last);
    return;
  }
}

}  // namespace

void audit_positions(Patient& p, FactSheet& facts) {
  if (p.block() < 3) return;
  const std::vector<std::int32_t> same(p.x.size(), 1 % static_cast<std::int32_t>(p.spec.vocab_size));
  const Seen s = p.pass(Mode::eval, same);
  const auto t = static_cast<std::size_t>(p.block());
  std::vector<Signature> at(t);
  bool in_stream = false;
  if (const Grid<float>* embed = s.find("embed")) {
    for (std::size_t i = 0; i < t; ++i) {
      const auto row = row_of(*embed, static_cast<std::int64_t>(i));
      at[i].assign(row.begin(), row.end());
    }
    in_stream = !all_equal(at);
  }
  if (!in_stream) {
    const Grid<float>* scores = s.find("blocks.0.attn.scores");
    if (!scores || p.spec.attention.window > 0) return;  // a window hides keys
    for (Signature& one : at) one.clear();
    for (std::int64_t h = 0; h < p.spec.n_head; ++h) {
      const auto row = row_of(*scores, (h + 1) * p.block() - 1);
      for (std::size_t i = 0; i < t; ++i) at[i].push_back(row[i]);
    }
  }
  facts.add("positions_told", !all_equal(at));
  audit_table(p, facts);
  if (all_equal(at)) return;
  facts.add("position_period", period_of(at));
  std::int64_t tail = 1, shortest = static_cast<std::int64_t>(t), run = 1;
  while (tail < static_cast<std::int64_t>(t) && at[t - 1 - static_cast<std::size_t>(tail)] == at[t - 1])
    ++tail;
  for (std::size_t i = 1; i <= t; ++i) {
    if (i < t && at[i] == at[i - 1]) {
      ++run;
      continue;
    }
    if (i < t || run == tail) shortest = std::min(shortest, i < t ? run : shortest);
    run = 1;
  }
  facts.add("position_tail", tail);      // how many at the end are told as one
  facts.add("position_step", shortest);  // how many neighbours are told as one, everywhere
}

}  // namespace plumb
