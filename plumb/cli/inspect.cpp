// plumb inspect: nine questions about somebody else's model, as tables or JSON.
#include "plumb/interop/inspect.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "plumb/base/error.h"
#include "plumb/base/median.h"
#include "plumb/base/text.h"
#include "plumb/base/wrap.h"
#include "plumb/cli/flags.h"
#include "plumb/cli/interrupt.h"
#include "plumb/cli/live.h"
#include "plumb/cli/say.h"
#include "plumb/report/terminal_plot.h"

namespace plumb::cli {
namespace {

std::string size(const std::optional<std::int64_t>& n) { return n ? std::to_string(*n) : "?"; }

void print_answers(const Inspection& i) {
  fmt::print("{}\n", one_line(fmt::format("{}: {} ({})", i.source, i.architecture, i.architecture_because)));
  fmt::print(
      "n_layer {}, d_model {}, n_head {}, n_kv_head {}, d_head {}, d_ff {}, vocab_size {}, block_size {}\n\n",
      size(i.n_layer), size(i.d_model), size(i.n_head), size(i.n_kv_head), size(i.d_head), size(i.d_ff),
      size(i.vocab_size), size(i.block_size));
  const auto row = [](std::string_view question, const Answer& a) {
    fmt::print("{}\n", wrapped_behind(fmt::format("{:<36} {:<12} ", question, one_line(a.value)),
                                      one_line(a.because), terminal_width()));
  };
  fmt::print("{:<36} {:<12} {}\n", "question", "answer", "because");
  row("where do the norms stand?", i.placement);
  row("which norm?", i.norm);
  row("a norm before the head?", i.final_norm);
  row("residual writes drawn x 1/sqrt(2L)?", i.scaled_init);
  row("positions?", i.position);
  row("query and key heads?", i.attention);
  row("FFN?", i.ffn);
  row("norm of queries and keys?", i.qk_norm);
  row("head tied to the embedding?", i.tied);
  std::vector<std::string> details;
  for (const auto& [key, value] : i.details.as_object("details"))
    if (!value.is_null())
      details.push_back(key + " " + (value.is_string() ? value.as_string(key) : value.dump()));
  if (!details.empty()) fmt::print("\n{}\n", one_line(join(details)));
}

// What a line of the table shows of one layer: means over the matrices of a kind.
struct LayerLine {
  double inner = 0, out = 0, up = 0, down = 0;  // std
  std::vector<double> alpha;
  std::int64_t outliers = 0;
  double gain = 0, least = 0, most = 0;
  bool has_gain = false;
};

double pooled(const std::vector<const MatrixStats*>& layer, std::initializer_list<Part> parts) {
  double squares = 0, n = 0;
  for (const MatrixStats* m : layer)
    if (std::ranges::find(parts, m->part) != parts.end())
      squares += m->std * m->std * static_cast<double>(m->n()), n += static_cast<double>(m->n());
  return n > 0 ? std::sqrt(squares / n) : 0;
}

std::map<std::int64_t, LayerLine> lines_of(const WeightStats& w) {
  std::map<std::int64_t, std::vector<const MatrixStats*>> layers;
  for (const MatrixStats& m : w.matrices)
    if (m.layer >= 0) layers[m.layer].push_back(&m);
  std::map<std::int64_t, LayerLine> lines;
  for (const auto& [layer, matrices] : layers) {
    LayerLine& l = lines[layer];
    l.inner = pooled(matrices, {Part::q, Part::k, Part::v, Part::qkv});
    l.out = pooled(matrices, {Part::attn_out});
    l.up = pooled(matrices, {Part::gate, Part::up, Part::gate_up});
    l.down = pooled(matrices, {Part::down});
    for (const MatrixStats* m : matrices) {
      l.outliers += m->n_outliers;
      if (m->tail) l.alpha.push_back(m->tail->alpha);
    }
    std::ranges::sort(l.alpha);
  }
  std::map<std::int64_t, double> n;
  for (const NormStats& g : w.norms) {
    const auto l = lines.find(g.layer);
    if (l == lines.end() || g.part != Part::norm || g.finite == 0) continue;
    LayerLine& line = l->second;
    line.least = line.has_gain ? std::min(line.least, g.min) : g.min;
    line.most = line.has_gain ? std::max(line.most, g.max) : g.max;
    const double before = n[g.layer]++;
    line.gain = (line.gain * before + g.mean) / (before + 1);
    line.has_gain = true;
  }
  return lines;
}

void print_layers(const WeightStats& w) {
  const std::map<std::int64_t, LayerLine> lines = lines_of(w);
  if (lines.empty()) return;
  double most = 0;
  for (const auto& [layer, l] : lines) most = std::max({most, l.inner, l.out, l.up, l.down});
  fmt::print("\n{:>5}  {:<22}  {:<22}  {:<22}  {:<22}  {:>6}  {:>8}  {}\n", "layer", "std of q, k, v",
             "of attention output", "of FFN in", "of FFN output", "alpha*", "outliers",
             "gain: mean [min, max]");
  for (const auto& [layer, l] : lines) {
    fmt::print("{:>5}", layer);
    for (const double std : {l.inner, l.out, l.up, l.down})
      fmt::print("  {} {:>9.4g}", terminal_bar(std, most, 12), std);
    fmt::print("  {:>6}  {:>8}", l.alpha.empty() ? "-" : fmt::format("{:.2f}", middle_of(l.alpha)),
               l.outliers);
    if (l.has_gain) fmt::print("  {:.3f} [{:.3f}, {:.3f}]", l.gain, l.least, l.most);
    fmt::print("\n");
  }
  fmt::print(
      "* median over the layer's matrices of the exponent of the tail of WᵀW's eigenvalues; outliers: input "
      "channels of weights {}x the median\n",
      outlier_ratio);
}

// std beside the std that the config would have drawn, by kind of matrix.
void print_init(const WeightStats& w) {
  struct Kind {
    double squares = 0, n = 0, init = 0;
  };
  std::map<Part, Kind> kinds;
  for (const MatrixStats& m : w.matrices) {
    Kind& k = kinds[m.part];
    k.squares += m.std * m.std * static_cast<double>(m.n());
    k.n += static_cast<double>(m.n());
    k.init = m.init_std.value_or(0);
  }
  fmt::print("\n{:<14} {:>10} {:>10} {:>8}\n", "matrices", "std", "init std", "ratio");
  for (const auto& [part, k] : kinds) {
    const double std = k.n > 0 ? std::sqrt(k.squares / k.n) : 0;
    if (k.init > 0)
      fmt::print("{:<14} {:>10.4g} {:>10.4g} {:>8.3f}\n", part_name(part), std, k.init, std / k.init);
    else
      fmt::print("{:<14} {:>10.4g} {:>10} {:>8}\n", part_name(part), std, "?", "");
  }
}

void print(const Inspection& i) {
  print_answers(i);
  if (i.measured && !i.weights.matrices.empty()) {
    print_layers(i.weights);
    print_init(i.weights);
  }
  if (!i.warnings.empty() || !i.notes.empty()) fmt::print("\n");
  for (const std::string& w : i.warnings) fmt::print("warning: {}\n", one_line(w));
  for (const std::string& n : i.notes) fmt::print("note: {}\n", one_line(n));
}

}  // namespace

int inspect_command(const Flags& f) {
  if (f.args.empty() || f.args.size() > 2)
    bad_input("name one checkpoint, and a config if it lies elsewhere: `plumb inspect path/to/model`");
  refuse_misplaced(f.args[0], "inspect");
  const CheckpointSource source =
      open_checkpoint_source(f.args[0], f.args.size() > 1 ? f.args[1] : std::string());
  note_faults_of_run(f.args[0], f.quiet);
  listen_for_interrupts();
  const bool show = !f.quiet && ::isatty(STDERR_FILENO) != 0;
  InspectOptions options;
  options.weights = !f.no_weights;
  options.measure.spectrum = f.spectrum;
  options.measure.progress = [&](std::int64_t done, std::int64_t of) {
    if (show) say("\rmeasuring: {} of {} matrices ", done, of);
    return !interrupted();
  };
  const Inspection i = inspect(source, options);
  if (show) say("\r{:40}\r", "");
  if (f.json)
    fmt::print("{}\n", to_json(i).dump());
  else
    print(i);
  return 0;
}

}  // namespace plumb::cli
