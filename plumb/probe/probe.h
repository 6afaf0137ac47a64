// Probes: what they see of a step, turned into numbers of its trace row. One probe a file, which says what is
// its own: a point or the parameters, a statistic, a name in the trace. The rest is here.
#pragma once
#include <algorithm>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "plumb/kernel/measure.h"
#include "plumb/plan/hook.h"
#include "plumb/plan/params.h"
#include "plumb/spec/spec.h"
#include "plumb/trace/trace.h"

namespace plumb {

/// The hook sees the values of a step while it runs; `updated` sees the parameters after it. The numbers have
/// the same bits whichever thread ran which shard, on any number of threads.
struct Probe : Hook<float> {
  /// Whether `updated` is to be called: if no probe of a run says so, nobody needs a copy of the parameters.
  virtual bool watches_update() const { return false; }
  /// After the optimiser's update of a step that the probe saw: the parameters before and after it, and the
  /// gradients (of the mean loss, before clipping by their norm), flat, in the layout of the store.
  virtual void updated(const ParamLayout& layout, std::span<const float> before, std::span<const float> after,
                       std::span<const float> grads) {
    (void)layout, (void)before, (void)after, (void)grads;
  }
  /// Adds what was measured of the last step. A number of which nothing was seen (no such point in this
  /// model, no update) is left out of the row: a NaN there would look like a finding.
  virtual void write(StepRow& row) const = 0;
};

/// How a probe introduces itself; the table is generated from the file names.
struct ProbeEntry {
  std::string_view name, measures;
  /// Of the model, `n_layer` counts, and `block_size`: it must be the `block` of the plan that the probe
  /// watches. (A view that a hook is given has the rows of a shard's sequences one after the other, and does
  /// not say how many there are.)
  std::unique_ptr<Probe> (*make)(const DecoderSpec&);
  /// Measured at every `probe.all_every`-th step only, as it costs a good part of a step.
  bool costly = false;
};
std::vector<ProbeEntry> probe_table();

/// The index i of a point that `pattern` describes: "blocks.3.out" is 3 of "blocks.{i}.out". A pattern
/// without "{i}" is a point's whole name and has index 0. -1: another point.
int index_of(std::string_view point, std::string_view pattern);

/// Partial results P of a call by shard and index (a layer, or 0), joined in the order of shards. P has
/// `merge(const P&)`, and a `count` that is 0 until something was seen.
template <class P>
class Parts {
 public:
  explicit Parts(std::int64_t n) : n_(static_cast<std::size_t>(n)), total_(n_) {}
  void begin(int n_shard) {
    parts_.assign(static_cast<std::size_t>(n_shard) * n_, {});
    total_.assign(n_, {});
  }
  /// Different shards may add at the same time.
  void add(int shard, int index, const P& p) {
    parts_[static_cast<std::size_t>(shard) * n_ + static_cast<std::size_t>(index)].merge(p);
  }
  void merge() {
    total_.assign(n_, {});
    for (std::size_t i = 0; i < parts_.size(); ++i) total_[i % n_].merge(parts_[i]);
  }
  const std::vector<P>& total() const { return total_; }

 private:
  std::size_t n_;
  std::vector<P> parts_, total_;
};

/// Adds S::value of each part to a row as S::metric; nothing when no part has seen anything.
template <class S, class P>
void write_metric(StepRow& row, const std::vector<P>& parts, bool per_layer) {
  if (std::all_of(parts.begin(), parts.end(), [](const P& p) { return p.count == 0; })) return;
  if (!per_layer) {
    row.values.emplace_back(S::metric, S::value(parts[0]));
    return;
  }
  auto& values = row.layers.emplace_back(S::metric, std::vector<double>()).second;
  values.reserve(parts.size());
  for (const P& p : parts) values.push_back(S::value(p));
}

/// A probe of one point, or of one in each block. S has
///   metric, point, dir                             its name in the trace, and where it looks ("blocks.{i}.out",
///                                                  forward)
///   P measure(View<const float>, block [, window]) of one shard's value; rows are positions, `block` to a sequence;
///                                                  the window is the layer's attention's
///   double value(const P&)                         of the parts of all shards
template <class S>
class PointProbe final : public Probe {
 public:
  explicit PointProbe(const DecoderSpec& s)
      : block_(s.block_size), attention_(s.attention), parts_(per_layer ? s.n_layer : 1) {}
  bool wants(std::string_view point, Dir dir) const override {
    return dir == S::dir && index_of(point, S::point) >= 0;
  }
  void begin(int n_shard) override { parts_.begin(n_shard); }
  void at(std::string_view point, Dir, View<float> v, int shard) override {
    const int index = index_of(point, S::point);
    parts_.add(shard, index, measure(v, block_, attention_.window_of(index)));
  }
  void merge(int) override { parts_.merge(); }
  void write(StepRow& row) const override { write_metric<S>(row, parts_.total(), per_layer); }

 private:
  static auto measure(View<const float> v, std::int64_t block, std::int64_t window) {
    if constexpr (requires { S::measure(v, block, window); })
      return S::measure(v, block, window);
    else
      return S::measure(v, block);
  }
  using Part = decltype(measure({}, 0, 0));
  static constexpr bool per_layer = S::point.find("{i}") != std::string_view::npos;
  std::int64_t block_;
  DecoderSpec::Attention attention_;
  Parts<Part> parts_;
};

/// A probe of each block's weight matrices (parameters of two dims or more) and their update. S has
///   metric                      its name in the trace
///   void add(P&, float, float, float)  counts one element: before, after, and its gradient
///   double value(const P&)      of all elements of a block
template <class S>
class UpdateProbe final : public Probe {
 public:
  explicit UpdateProbe(const DecoderSpec& s) : parts_(static_cast<std::size_t>(s.n_layer)) {}
  bool wants(std::string_view, Dir) const override { return false; }
  void at(std::string_view, Dir, View<float>, int) override {}
  void begin(int) override { std::fill(parts_.begin(), parts_.end(), typename S::Part{}); }
  bool watches_update() const override { return true; }
  void updated(const ParamLayout& layout, std::span<const float> before, std::span<const float> after,
               std::span<const float> grads) override {
    begin(0);
    for (const ParamInfo& p : layout.params) {
      if (p.spec.layer < 0 || p.spec.shape.dims.size() < 2) continue;
      const auto first = static_cast<std::size_t>(p.offset), n = static_cast<std::size_t>(p.size());
      auto& part = parts_[static_cast<std::size_t>(p.spec.layer)];
      for (std::size_t i = first; i < first + n; ++i) S::add(part, before[i], after[i], grads[i]);
    }
  }
  void write(StepRow& row) const override { write_metric<S>(row, parts_, true); }

 private:
  std::vector<typename S::Part> parts_;
};

template <class P>
constexpr ProbeEntry probe_entry(std::string_view name, std::string_view measures, bool costly = false) {
  return {name, measures,
          [](const DecoderSpec& s) -> std::unique_ptr<Probe> { return std::make_unique<P>(s); }, costly};
}

}  // namespace plumb
