// Probes: what they see of a step, turned into numbers of its trace row. One probe a file, which says what is
// its own: a point or the parameters, a statistic, a name in the trace. The rest is here.
#pragma once
#include <algorithm>
#include <limits>
#include <memory>
#include <span>
#include <string>
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
  /// What it must know of earlier steps, as text: it goes into checkpoints, so that a run that goes on
  /// measures the same. Empty: nothing.
  virtual std::string memory() const { return {}; }
  /// Takes back what `memory` said; bad_input for another model's.
  virtual void recall(std::string_view) {}
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

/// A number that a probe makes of its parts.
template <class P>
struct Number {
  std::string_view metric;  // its name in the trace
  double (*value)(const P&);
};

/// Adds the number of each part to a row, NaN for one that has seen nothing; nothing when none has.
template <class P>
void write_number(StepRow& row, const Number<P>& number, const std::vector<P>& parts, bool per_layer) {
  if (std::all_of(parts.begin(), parts.end(), [](const P& p) { return p.count == 0; })) return;
  if (!per_layer) {
    row.values.emplace_back(number.metric, number.value(parts[0]));
    return;
  }
  auto& values = row.layers.emplace_back(number.metric, std::vector<double>()).second;
  values.reserve(parts.size());
  for (const P& p : parts)
    values.push_back(p.count == 0 ? std::numeric_limits<double>::quiet_NaN() : number.value(p));
}

/// The numbers of S: `numbers`, an array of them, or one that is S::metric and S::value.
template <class S, class P>
void write_numbers(StepRow& row, const std::vector<P>& parts, bool per_layer) {
  if constexpr (requires { S::numbers; }) {
    for (const Number<P>& n : S::numbers) write_number(row, n, parts, per_layer);
  } else {
    write_number(row, Number<P>{S::metric, S::value}, parts, per_layer);
  }
}

/// A probe of one point, or of one in each block. S has
///   metric and double value(const P&), or numbers  its names in the trace, and what they are of the parts of all
///                                                  shards
///   point, dir                                     where it looks ("blocks.{i}.out", forward)
///   P measure(View<const float>, block [, window]) of one shard's value; rows are positions, `block` to a sequence;
///                                                  the window is the layer's attention's
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
  void write(StepRow& row) const override { write_numbers<S>(row, parts_.total(), per_layer); }

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

/// Base of a probe that sees each block in its own way (several points, say): what is left are `wants`, `at`
/// and `write`.
template <class P>
class BlockProbe : public Probe {
 public:
  explicit BlockProbe(const DecoderSpec& s) : parts_(s.n_layer) {}
  void begin(int n_shard) override { parts_.begin(n_shard); }
  void merge(int) override { parts_.merge(); }

 protected:
  Parts<P> parts_;
};

/// Base of a probe that sees parameters and no points; a part for each block. What is left are `look`, at the
/// parameters of an update, and `write`.
template <class P>
class ParamProbe : public Probe {
 public:
  explicit ParamProbe(const DecoderSpec& s) : parts_(static_cast<std::size_t>(s.n_layer)) {}
  bool wants(std::string_view, Dir) const override { return false; }
  void at(std::string_view, Dir, View<float>, int) override {}
  void begin(int) override { std::fill(parts_.begin(), parts_.end(), P{}); }
  bool watches_update() const override { return true; }
  void updated(const ParamLayout& layout, std::span<const float> before, std::span<const float> after,
               std::span<const float> grads) override {
    begin(0);
    for (const ParamInfo& p : layout.params) {
      if (p.spec.layer < 0) continue;
      const auto first = static_cast<std::size_t>(p.offset), n = static_cast<std::size_t>(p.size());
      look(p, before.subspan(first, n), after.subspan(first, n), grads.subspan(first, n),
           parts_[static_cast<std::size_t>(p.spec.layer)]);
    }
  }

 protected:
  /// One parameter of a block: its elements before and after the update, and their gradients.
  virtual void look(const ParamInfo&, std::span<const float> before, std::span<const float> after,
                    std::span<const float> grads, P&) = 0;
  std::vector<P> parts_;
};

/// A probe of each block's weight matrices (parameters of two dims or more) and their update. S has
///   metric and double value(const Part&), or numbers    as of a point
///   void add(Part&, float, float, float)                counts one element: before, after, and its gradient
template <class S>
class UpdateProbe final : public ParamProbe<typename S::Part> {
 public:
  using ParamProbe<typename S::Part>::ParamProbe;
  void write(StepRow& row) const override { write_numbers<S>(row, this->parts_, true); }

 private:
  void look(const ParamInfo& p, std::span<const float> before, std::span<const float> after,
            std::span<const float> grads, typename S::Part& part) override {
    if (p.spec.shape.dims.size() < 2) return;
    typename S::Part sum = part;  // a copy stays in registers
    for (std::size_t i = 0; i < before.size(); ++i) S::add(sum, before[i], after[i], grads[i]);
    part = sum;
  }
};

template <class P>
constexpr ProbeEntry probe_entry(std::string_view name, std::string_view measures, bool costly = false) {
  return {name, measures,
          [](const DecoderSpec& s) -> std::unique_ptr<Probe> { return std::make_unique<P>(s); }, costly};
}

}  // namespace plumb
