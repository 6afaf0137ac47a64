// A small model with and without a fault, on the same numbers.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "plumb/spec/from_config.h"
#include "tests/support/decoder_rig.h"
#include "tests/support/small_run.h"

namespace plumb::test {

/// 2 layers, d_model 32, 4 heads, d_ff 64, blocks of 16.
inline Config config_with(const std::vector<std::string>& faults, double strength = 1,
                          const std::vector<std::string>& set = {}) {
  Config c = small_config();
  c.fault.inject = faults;
  c.fault.strength = strength;
  for (const std::string& s : set) set_value(c, s);
  return resolve_config(c);
}

/// The config as its faults leave it.
inline Config sick(const std::string& fault, double strength = 1, const std::vector<std::string>& set = {}) {
  return with_faults(config_with({fault}, strength, set), fault_table());
}

using Rows = std::vector<std::vector<double>>;

/// Every materialised point of one pass over two sequences of a vocabulary of 61, in double: values as ".x",
/// gradients as "d .x".
struct Seen final : Hook<double> {
  std::map<std::string, std::map<int, Rows>> by_shard;
  bool wants(std::string_view point, Dir) const override {
    return point.find("attn.weights") == point.npos && point.find("attn.scores") == point.npos;
  }
  void at(std::string_view point, Dir dir, View<double> v, int shard) override {
    Rows& rows = by_shard[(dir == Dir::backward ? "d " : "") + std::string(point)][shard];
    rows.clear();
    for (std::int64_t i = 0; i < v.rows; ++i) rows.emplace_back(v.row(i), v.row(i) + v.cols);
  }
};

struct Pass {
  static constexpr std::int64_t block = 16;
  DecoderSpec spec;
  std::map<std::string, Rows> at;
  std::map<std::string, std::vector<double>> params, grads;
  std::map<std::string, ParamRule> rules;
  double loss = 0;

  /// `change`: of the tokens, before the pass.
  explicit Pass(const Config& c, const std::function<void(Tokens&)>& change = {}, Mode mode = Mode::train)
      : spec(spec_of(c, 61, Components{})) {
    Seen seen;
    DecoderRig<double> rig(spec, {.mode = mode, .batch = 2, .block = block}, 1, {&seen});
    if (change) change(rig.tokens);
    loss = mode == Mode::train ? rig.step().loss : rig.plan.loss(rig.tokens.x, rig.tokens.y).loss;
    for (const auto& [point, shards] : seen.by_shard)
      for (const auto& [shard, rows] : shards) at[point].insert(at[point].end(), rows.begin(), rows.end());
    for (const ParamInfo& p : rig.store.layout().params) {
      const auto from = static_cast<std::ptrdiff_t>(p.offset),
                 to = from + static_cast<std::ptrdiff_t>(p.size());
      const auto all = rig.store.values(), g = rig.plan.grads();
      params[p.spec.name].assign(all.begin() + from, all.begin() + to);
      if (mode == Mode::train) grads[p.spec.name].assign(g.begin() + from, g.begin() + to);
      rules[p.spec.name] = p.rule;
    }
  }
  const Rows& operator[](const std::string& point) const {
    const auto found = at.find(point);
    if (found == at.end()) throw std::runtime_error("no point " + point);
    return found->second;
  }
};

inline Pass healthy(const std::vector<std::string>& set = {}) { return Pass(config_with({}, 1, set)); }
inline Pass with(const std::string& fault, double strength = 1, const std::vector<std::string>& set = {}) {
  return Pass(config_with({fault}, strength, set));
}

/// got = factor * want, element by element.
inline testing::AssertionResult are(const std::vector<double>& got, const std::vector<double>& want,
                                    double factor = 1, double tolerance = 1e-12) {
  if (got.size() != want.size()) return testing::AssertionFailure() << "sizes differ";
  for (std::size_t i = 0; i < got.size(); ++i)
    if (!(std::abs(got[i] - factor * want[i]) <= tolerance * std::max(1.0, std::abs(got[i]))))
      return testing::AssertionFailure() << "element " << i << ": " << got[i] << ", not " << factor * want[i];
  return testing::AssertionSuccess();
}
inline testing::AssertionResult are(const Rows& got, const Rows& want, double factor = 1,
                                    double tolerance = 1e-12) {
  if (got.size() != want.size()) return testing::AssertionFailure() << "numbers of rows differ";
  for (std::size_t i = 0; i < got.size(); ++i)
    if (auto r = are(got[i], want[i], factor, tolerance); !r) return r << " (row " << i << ")";
  return testing::AssertionSuccess();
}

struct RowMoments {
  double mean = 0, var = 0;
};
inline RowMoments moments(const std::vector<double>& x) {
  RowMoments m;
  for (const double v : x) m.mean += v / static_cast<double>(x.size());
  for (const double v : x) m.var += (v - m.mean) * (v - m.mean) / static_cast<double>(x.size());
  return m;
}

}  // namespace plumb::test
