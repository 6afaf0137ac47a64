#include "plumb/fault/fault.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "plumb/base/error.h"
#include "plumb/base/rng.h"
#include "plumb/base/text.h"

namespace plumb {
namespace {

template <class R>
class MultipliedOp final : public Op<R> {
 public:
  MultipliedOp(std::string_view kind, RowFactors<R> forward, RowFactors<R> backward)
      : kind_(kind), forward_(std::move(forward)), backward_(std::move(backward)) {}
  OpInfo info() const override { return {.kind = kind_}; }

  void forward(Run<R>& r) const override {
    const View<const R> x = r.in(0);
    std::vector<R> m(static_cast<std::size_t>(x.cols));
    for (std::int64_t i = 0; i < x.rows; ++i) {
      forward_(r, i, x.rows, m);
      for (std::int64_t j = 0; j < x.cols; ++j)
        r.out().row(i)[j] = m[static_cast<std::size_t>(j)] * x.row(i)[j];
    }
  }

  void backward(Run<R>& r) const override {
    const Sink<R> dx = r.din(0);
    if (!dx) return;
    std::vector<R> m(static_cast<std::size_t>(dx.v.cols));
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
  std::string_view kind_;
  RowFactors<R> forward_, backward_;
};

void refuse_strength(const FaultEntry& e, const Config& config) {
  const double s = config.fault.strength;
  if (e.strength.empty() || (s != 0 && s >= e.low && s <= e.high)) return;
  bad_input("fault.strength = {} ({}): '{}' takes {} to {} and not 0: {}", s, config.where("fault.strength"),
            e.name, e.low, e.high, e.strength);
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
  each_fault(
      resolved.fault, table,
      [&](const FaultEntry& e) {
        if (std::ranges::count(names, e.name) > 1)
          bad_input("fault.inject ({}) has '{}' twice; name it once", resolved.where("fault.inject"), e.name);
        refuse_strength(e, resolved);
        if (const std::string why = e.refuses ? e.refuses(resolved) : std::string(); !why.empty())
          bad_input("fault.inject ({}): '{}' cannot be in this run: {}", resolved.where("fault.inject"),
                    e.name, why);
        if (e.config) e.config(sick, resolved.fault.strength);
      },
      resolved.where("fault.inject"));
  return sick;
}

void add_faults(DecoderSpec& spec, const FaultConfig& c, const std::vector<FaultEntry>& table) {
  spec.flaws.strength = c.strength;
  each_fault(c, table, [&](const FaultEntry& e) {
    if (e.spec) e.spec(spec, c.strength);
    if (e.graph_f32) spec.flaws.faults.emplace_back(e.name);
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
      "or `plumb train --set fault.inject=no_final_norm`. The run says so in its first lines, its config, "
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
  return b.node1(std::make_unique<MultipliedOp<R>>(kind, std::move(forward), std::move(backward)),
                 {.name = name,
                  .in = {x},
                  .out = {b.shape(x)},
                  .backward_reads_in = false,
                  .backward_reads_out = false});
}

template <class R>
Value dropped(Builder<R>& b, Value x, double p, bool in_eval, const std::string& name) {
  const Stream draws = stream(0, "fault/dropout/" + name);
  const auto factors = [draws, p, in_eval](const Run<R>& r, std::int64_t i, std::int64_t rows,
                                           std::span<R> m) {
    if (r.mode() == Mode::eval && !in_eval) {
      std::ranges::fill(m, R(1));
      return;
    }
    const std::int64_t block = rows / r.sequences();
    const auto step = static_cast<std::uint64_t>(r.step());
    const auto sample = static_cast<std::uint64_t>(r.first_sample() + i / block);
    const auto position = static_cast<std::uint64_t>(r.position() + i % block);
    for (std::size_t j = 0; j < m.size(); ++j)
      m[j] = draws.uniform(step, sample, position * m.size() + j) < p ? R(0) : static_cast<R>(1 / (1 - p));
  };
  return multiplied<R>(b, x, "dropout", factors, {}, name);
}

#define PLUMB_INSTANTIATE(R)                                                                    \
  template Value multiplied(Builder<R>&, Value, std::string_view, RowFactors<R>, RowFactors<R>, \
                            const std::string&);                                                \
  template Value dropped(Builder<R>&, Value, double, bool, const std::string&);
PLUMB_INSTANTIATE(float)
PLUMB_INSTANTIATE(double)
#undef PLUMB_INSTANTIATE

}  // namespace plumb
