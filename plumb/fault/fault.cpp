#include "plumb/fault/fault.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "plumb/base/error.h"
#include "plumb/base/rng.h"
#include "plumb/base/text.h"
#include "plumb/spec/from_config.h"

namespace plumb {
namespace {

template <class R>
class MultipliedOp final : public Op<R> {
 public:
  MultipliedOp(std::string_view kind, RowFactors<R> forward, RowFactors<R> backward)
      : kind_(kind), forward_(std::move(forward)), backward_(std::move(backward)) {}
  OpInfo info() const override { return {.kind = kind_}; }

  std::size_t prepare(const Run<R>& r, ProductCache<R>&) override {
    return static_cast<std::size_t>(r.in(0).cols) * sizeof(R);
  }

  void forward(Run<R>& r) const override {
    const View<const R> x = r.in(0);
    const std::span<R> m = factors(r, x.cols);
    for (std::int64_t i = 0; i < x.rows; ++i) {
      forward_(r, i, x.rows, m);
      for (std::int64_t j = 0; j < x.cols; ++j)
        r.out().row(i)[j] = m[static_cast<std::size_t>(j)] * x.row(i)[j];
    }
  }

  void backward(Run<R>& r) const override {
    const Sink<R> dx = r.din(0);
    if (!dx) return;
    const std::span<R> m = factors(r, dx.v.cols);
    for (std::int64_t i = 0; i < dx.v.rows; ++i) {
      (backward_ ? backward_ : forward_)(r, i, dx.v.rows, m);
      for (std::int64_t j = 0; j < dx.v.cols; ++j) {
        const R g = m[static_cast<std::size_t>(j)] * r.dout().row(i)[j];
        R& to = dx.v.row(i)[j];
        to = dx.overwrite ? g : to + g;
      }
    }
  }

 private:
  static std::span<R> factors(const Run<R>& r, std::int64_t n) {
    return {static_cast<R*>(r.scratch()), static_cast<std::size_t>(n)};
  }
  std::string_view kind_;
  RowFactors<R> forward_, backward_;
};

}  // namespace

void refuse_idle(std::string_view name) {
  bad_input(
      "fault.inject: '{}' changes nothing in this model, which has none of what would be wrong; leave it "
      "out, or raise "
      "fault.strength",
      name);
}

namespace {

void refuse_strength(const FaultEntry& e, const Config& config) {
  const double s = config.fault.strength;
  if (e.strength.empty() || (s != 0 && s >= e.low && s <= e.high)) return;
  bad_input("fault.strength = {} ({}): '{}' takes {} to {}{}: {}", s, config.where("fault.strength"), e.name,
            e.low, e.high, e.low > 0 ? "" : " and not 0", e.strength);
}

// Calls f(entry) for every fault of the config.
template <class F>
void each_fault(const FaultConfig& c, const std::vector<FaultEntry>& table, const F& f,
                std::string_view place = "the config") {
  for (const std::string& name : c.inject) f(fault_named(table, name, place));
}

}  // namespace

const FaultEntry& fault_named(const std::vector<FaultEntry>& table, std::string_view name,
                              std::string_view place) {
  std::vector<std::string> known;
  for (const FaultEntry& e : table) {
    if (e.name == name) return e;
    known.emplace_back(e.name);
  }
  const auto near = nearest_name(name, known);
  bad_input("fault.inject ({}): unknown fault '{}'; {}docs/faults.md lists them all", place, name,
            near ? fmt::format("did you mean '{}'? ", *near) : std::string());
}

Config with_faults(const Config& resolved, const std::vector<FaultEntry>& table) {
  Config sick = resolved;
  const auto& names = resolved.fault.inject;
  const std::string place = resolved.where("fault.inject");
  std::map<std::string, std::string_view> changed;  // key -> by which fault
  const auto add = [&](const FaultEntry& e) {
    if (std::ranges::count(names, e.name) > 1)
      bad_input("fault.inject ({}) has '{}' twice; name it once", place, e.name);
    refuse_strength(e, resolved);
    if (const std::string why = e.refuses ? e.refuses(sick) : std::string(); !why.empty())
      bad_input("fault.inject ({}): '{}' cannot be in this run: {}", place, e.name, why);
    if (!e.config) return;
    const Config before = sick;
    e.config(sick, resolved.fault.strength);
    bool any = e.spec || e.run || e.graph_f32;
    for (const auto& field : config_fields()) {
      if (field.get(sick) == field.get(before)) continue;
      any = true;
      const auto [other, fresh] = changed.emplace(field.path(), e.name);
      if (!fresh)
        bad_input("fault.inject ({}): '{}' and '{}' both change {}; take one of them", place, other->second,
                  e.name, field.path());
    }
    if (!any) refuse_idle(e.name);
  };
  each_fault(resolved.fault, table, add, place);
  return sick;
}

void add_faults(DecoderSpec& spec, const FaultConfig& c, std::int64_t seed,
                const std::vector<FaultEntry>& table) {
  if (c.inject.empty()) return;
  spec.flaws.strength = c.strength;
  spec.noise.seed = seed;
  each_fault(c, table, [&](const FaultEntry& e) {
    const Json before = spec_to_json(spec);
    if (e.spec) e.spec(spec, c.strength);
    if (e.spec && !e.graph_f32 && spec_to_json(spec) == before) refuse_idle(e.name);
    // Of one that is in both, what it does to the spec is all of it where it does something.
    if (e.graph_f32 && (!e.spec || spec_to_json(spec) == before)) spec.flaws.faults.emplace_back(e.name);
  });
}

RunFaults run_faults(const Config& resolved, const std::vector<FaultEntry>& table) {
  RunFaults all;
  each_fault(resolved.fault, table, [&](const FaultEntry& e) {
    if (e.run) e.run(all, resolved, resolved.fault.strength);
  });
  return all;
}

std::string faults_text(const FaultConfig& c) {
  if (c.inject.empty()) return {};
  return join(c.inject) + (c.strength == 1 ? std::string() : fmt::format(" (strength {})", c.strength));
}

std::string faults_markdown(const std::vector<FaultEntry>& table) {
  std::string out =
      "# Faults\n\n"
      "What can be wrong with a run, made wrong on purpose: to see what it looks like, and to test a "
      "diagnosis. For example\n\n"
      "```toml\n[fault]\ninject = [\"no_final_norm\"]   # several: [\"no_residual\", \"lr_too_high\"]\n"
      "strength = 1.0                # 1: the whole fault\n```\n\n"
      "or `./run train --set fault.inject=no_final_norm`, several as `a,b`. The run says so in its first "
      "lines, its config, "
      "its "
      "JSON answer and its manifest.\nOne strength is for all faults of a run. This page is made from the "
      "table of faults (`plumb/fault/`).\n\n"
      "| fault | what is wrong | strength |\n| --- | --- | --- |\n";
  for (const FaultEntry& e : table)
    out += fmt::format("| `{}` | {} | {} |\n", e.name, e.what,
                       e.strength.empty() ? std::string("on or off")
                                          : fmt::format("{}; {} to {}", e.strength, e.low, e.high));
  return out;
}

void learn_times(ParamRule& rule, double k) {
  rule.lr *= k;
  rule.lr_sgd *= k;
}

void scale_lr(Config& c, double k) {
  c.train.lr *= k;
  c.train.min_lr *= k;
}

std::string middle_block(const DecoderSpec& s) { return "blocks." + std::to_string(s.n_layer / 2); }

std::int64_t block_number(std::string_view point) {
  constexpr std::string_view head = "blocks.";
  std::int64_t n = -1;
  if (point.starts_with(head)) std::from_chars(point.data() + head.size(), point.data() + point.size(), n);
  return n;
}

bool is_block_point(std::string_view point, std::string_view end) {
  return point == "blocks." + std::to_string(block_number(point)) + std::string(end);
}

std::string refuses_without_norm(const Config& c) {
  return c.model.norm == "none" ? "there is no norm in this model; set model.norm" : "";
}

std::string refuses_without_positions(const Config& c) {
  return c.model.position == "learned" ? "" : "only model.position = \"learned\" has rows to read wrongly";
}

template <class R>
Value multiplied(Builder<R>& b, Value x, std::string_view kind, RowFactors<R> forward, RowFactors<R> backward,
                 const std::string& name) {
  const Value y = b.node1(std::make_unique<MultipliedOp<R>>(kind, std::move(forward), std::move(backward)),
                          {.name = name,
                           .in = {x},
                           .out = {b.shape(x)},
                           .backward_reads_in = false,
                           .backward_reads_out = false});
  b.expected_var(y, b.expected_var(x));
  return y;
}

#define PLUMB_INSTANTIATE(R)                                                                    \
  template Value multiplied(Builder<R>&, Value, std::string_view, RowFactors<R>, RowFactors<R>, \
                            const std::string&);
PLUMB_INSTANTIATE(float)
PLUMB_INSTANTIATE(double)
#undef PLUMB_INSTANTIATE

}  // namespace plumb
