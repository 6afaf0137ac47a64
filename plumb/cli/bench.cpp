// plumb bench step: one training step beside the processor's peak, its own matrix products, and a peer,
// interleaved. plumb bench probes: what a probed step costs more than a plain one, with the cheap probes and
// with all, in triples.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "plumb/base/clock.h"
#include "plumb/base/error.h"
#include "plumb/base/json.h"
#include "plumb/base/median.h"
#include "plumb/base/rng.h"
#include "plumb/base/text.h"
#include "plumb/cli/bench_norms.h"
#include "plumb/cli/flags.h"
#include "plumb/cli/say.h"
#include "plumb/kernel/peak.h"
#include "plumb/model/decoder.h"
#include "plumb/spec/from_config.h"
#include "plumb/study/observe.h"
#include "plumb/train/optimizer.h"

namespace plumb::cli {
namespace {

/// FLOP/s of all threads of the pool together, each busy with multiply-adds.
double peak_flops(ThreadPool& pool) {
  std::vector<double> flops(static_cast<std::size_t>(pool.size()));
  const double t = now_s();
  pool.run(pool.size(), [&](std::int64_t i) { fma_seconds(8'000'000, &flops[static_cast<std::size_t>(i)]); });
  const double seconds = now_s() - t;
  double total = 0;
  for (double f : flops) total += f;
  return total / seconds;
}

/// FLOPs of the linear layers of a step, forward and twice that backward, and of attention's scores and
/// weighted sums over all T x T pairs (the usual convention; the causal half is not subtracted).
double step_flops(const Plan<float>& plan, const DecoderSpec& s) {
  const double tokens = static_cast<double>(plan.options().batch * plan.options().block);
  double per_token = 0;
  for (const Node<float>& n : plan.graph().nodes)
    if (n.op->info().kind == "linear")
      for (const Value v : n.spec.in)
        if (const ValueInfo& i = plan.graph().at(v); i.kind != ValueKind::shard && i.shape.dims.size() > 1)
          per_token += 6.0 * static_cast<double>(i.shape.size());
  per_token += 12.0 * static_cast<double>(s.n_layer * s.n_head * s.d_head * plan.options().block);
  return per_token * tokens;
}

/// What is measured in a step.
enum class Look : std::uint8_t { none, cheap, all };

/// A model with a full step: loss, gradients, norm, update.
class StepBench {
 public:
  StepBench(const Config& c, ThreadPool& pool, Observers observers = {})
      : t_(with_faults(c, Components{}.fault).train),
        spec_(spec_of(c, c.data.vocab_size, Components{})),
        pool_(pool),
        store_(decoder_layout<float>(spec_, Components{}), static_cast<std::uint64_t>(t_.seed)),
        optimizer_(make_optimizer<float>(t_, Components{}, store_.layout(), pool.size())),
        observers_(std::move(observers)),
        before_(observers_.updated ? store_.values().size() : 0),
        plan_(make_plan<float>(spec_, Components{}, store_,
                               {.batch = t_.batch_size * t_.accumulate,
                                .block = spec_.block_size,
                                .recompute = static_cast<int>(t_.recompute),
                                .loss = {t_.label_smoothing, t_.z_loss}},
                               pool, observers_.hooks)) {
    const auto n = static_cast<std::size_t>(plan_.options().batch * spec_.block_size);
    const Stream random = stream(static_cast<std::uint64_t>(t_.seed), "bench");
    for (std::size_t i = 0; i < n + 1; ++i) {
      const auto token =
          static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(spec_.vocab_size), 0, 0, i));
      if (i < n) x_.push_back(token);
      if (i > 0) y_.push_back(token);
    }
    step();
  }

  /// Seconds of a step as the trainer takes it, with or without what the observers measure.
  double step(Look look = Look::none) {
    const bool probed = look != Look::none;
    const double t = now_s();
    plan_.observe(probed);
    if (probed && observers_.choose) observers_.choose(look == Look::all);
    plan_.loss_and_grad(x_, y_, {optimizer_->steps(), 0});
    const double t1 = now_s();
    const double norm = plan_.grad_norm();
    if (probed && observers_.updated) std::ranges::copy(store_.values(), before_.begin());
    optimizer_->update(store_, plan_.grads(), norm, {1e-4, 1}, pool_);
    plan_.commit();
    if (probed && observers_.updated)
      observers_.updated(store_.layout(), before_, store_.values(), plan_.grads());
    if (StepRow row; probed) observers_.write(row);
    const double end = now_s();
    update_s_ = std::min(update_s_, end - t1);
    return end - t;
  }

  double products() {
    const double t = now_s();
    plan_.run_products_only();
    return now_s() - t;
  }

  /// ms a step by op, as thread time divided by the threads, over `n` steps.
  std::vector<std::pair<std::string, double>> by_op(int n) {
    plan_.time_ops(true);
    plan_.op_seconds();
    for (int i = 0; i < n; ++i) step();
    auto ops = plan_.op_seconds();
    plan_.time_ops(false);
    const double busy = static_cast<double>(std::min<std::int64_t>(pool_.size(), plan_.schedule().n_shard));
    for (auto& [name, s] : ops) s *= 1e3 / n / busy;
    ops.emplace_back("norm, clip, update", update_s_ * 1e3);
    std::ranges::sort(ops, {}, [](auto& o) { return -o.second; });
    return ops;
  }

  double flops() const { return step_flops(plan_, spec_); }
  double tokens() const { return static_cast<double>(x_.size()); }

 private:
  TrainConfig t_;
  DecoderSpec spec_;
  ThreadPool& pool_;
  ParamStore<float> store_;
  std::unique_ptr<Optimizer<float>> optimizer_;
  Observers observers_;
  std::vector<float> before_;
  Plan<float> plan_;
  std::vector<std::int32_t> x_, y_;
  double update_s_ = 1e9;
};

double peer_ms(const std::string& command) {
  FILE* pipe = popen(command.c_str(), "r");
  if (!pipe) fail("the peer '{}' cannot be started", command);
  std::string text;
  std::array<char, 4096> buffer;
  while (std::fgets(buffer.data(), buffer.size(), pipe)) text = buffer.data();  // the last line
  if (pclose(pipe) != 0) fail("the peer '{}' failed; run it by itself to see why", command);
  if (text.empty())
    fail("the peer '{}' printed nothing; its last line must be {{\"ms_per_step\": x}}", command);
  const Json j = Json::parse(text, "the peer's last line");
  const double ms = j.at("ms_per_step", "the peer's last line").as_double("ms_per_step");
  if (!(ms > 0 && ms < 1e9)) fail("the peer '{}' says that a step takes {} ms", command, ms);
  return ms;
}

int bench_layers(const Flags& f, const Config& base, ThreadPool& pool) {
  Json rows = Json::array();
  std::string rest = f.layers + ",";
  while (!rest.empty()) {
    const auto comma = rest.find(',');
    Config c = base;
    set_value(c, "model.n_layer=" + rest.substr(0, comma));
    rest.erase(0, comma + 1);
    StepBench b(c, pool);
    double best = 1e9;
    for (int i = 0; i < f.rounds * 2; ++i) best = std::min(best, b.step());
    Json row = Json::object();
    row["n_layer"] = c.model.n_layer;
    row["ms_per_step"] = best * 1e3;
    row["ms_per_layer"] = best * 1e3 / static_cast<double>(c.model.n_layer);
    row["gflops"] = b.flops() / best / 1e9;
    if (!f.json)
      fmt::print("{:>4} layers  {:8.1f} ms a step  {:6.2f} ms a layer  {:6.1f} GFLOP/s\n", c.model.n_layer,
                 best * 1e3, best * 1e3 / static_cast<double>(c.model.n_layer), b.flops() / best / 1e9);
    rows.push_back(row);
  }
  if (f.json) {
    Json j = Json::object();
    j["layers"] = rows;
    fmt::print("{}\n", j.dump());
  }
  return 0;
}

/// What a tier of probes adds to training when it is due at every `every`-th step; 0: never.
struct Tier {
  Median cost;  // seconds that a step with it takes more than the plain one beside it
  std::int64_t every;
  double plain;  // seconds of a plain step
  double share(double s) const { return every > 0 ? s / (static_cast<double>(every) * plain) : 0; }

  void add_to(Json& j, const std::string& ms, const std::string& share_key,
              const std::string& every_key) const {
    j[ms + "_ms"] = cost.value * 1e3;
    j[ms + "_ms_interval"] = Json(std::vector<double>{cost.low * 1e3, cost.high * 1e3});
    j[every_key] = every;
    j[share_key] = share(cost.value);
    j[share_key + "_interval"] = Json(std::vector<double>{share(cost.low), share(cost.high)});
  }
  void print(const char* which) const {
    fmt::print("{}: {:.1f} ms more (95 %: {:.1f} to {:.1f}); ", which, cost.value * 1e3, cost.low * 1e3,
               cost.high * 1e3);
    if (every == 0)
      fmt::print("never due, probe.all_every is 0\n");
    else
      fmt::print("at every {} steps {:.2f} % of training (95 %: {:.2f} to {:.2f})\n", every,
                 100 * share(cost.value), 100 * share(cost.low), 100 * share(cost.high));
  }
};

int bench_probes(const Flags& f, const Config& config, ThreadPool& pool) {
  if (config.probe.every == 0) bad_input("probe.every is 0: nothing is probed; set it to 1 or more");
  ProbeSet probes(spec_of(config, config.data.vocab_size, Components{}));
  StepBench bench(config, pool, observers_of(probes));
  bench.step(Look::all);
  std::vector<double> plain, cheap, all;
  const int triples = 8 * f.rounds;
  for (int i = 0; i < triples; ++i) {  // the order turns, so that a drift of the machine favours none
    std::array<double, 3> seconds{};
    for (int k = 0; k < 3; ++k) {
      const int look = (i + k) % 3;
      seconds[static_cast<std::size_t>(look)] = bench.step(static_cast<Look>(look));
    }
    plain.push_back(seconds[0]);
    cheap.push_back(seconds[1] - seconds[0]);
    all.push_back(seconds[2] - seconds[0]);
    if (!f.quiet && i % 8 == 7) say("triple {}/{}\n", i + 1, triples);
  }
  const double step = Median(plain).value;
  const Tier few{Median(cheap), config.probe.every, step}, whole{Median(all), config.probe.all_every, step};
  std::vector<ProbeSet::Cost> costs = probes.costs();
  const auto us = [](const ProbeSet::Cost& c) { return 1e6 * c.seconds / static_cast<double>(c.steps); };
  std::ranges::sort(costs, [&](const auto& a, const auto& b) { return us(a) > us(b); });
  if (f.json) {
    Json j = Json::object(), by = Json::array();
    j["pairs"] = static_cast<std::int64_t>(triples);
    j["ms_per_step"] = step * 1e3;
    few.add_to(j, "probe", "share", "every");
    whole.add_to(j, "all", "all_share", "all_every");
    for (const ProbeSet::Cost& c : costs) {
      Json row = Json::object();
      row["name"] = std::string(c.name);
      row["us"] = us(c);
      row["costly"] = c.costly;
      by.push_back(row);
    }
    j["probes"] = by;
    j["threads"] = pool.size();
    fmt::print("{}\n", j.dump());
    return 0;
  }
  fmt::print("a plain step: {:.1f} ms (medians of {} triples)\n", step * 1e3, triples);
  few.print("with the cheap probes");
  whole.print("with all probes");
  fmt::print("\n{:<20} {:>16}\n", "probe", "us a probed step");
  for (const ProbeSet::Cost& c : costs)
    fmt::print("{:<20} {:>16.0f}  {}\n", c.name, us(c), c.costly ? "costly" : "cheap");
  fmt::print("\nTimes of probes are sums over threads.\n");
  return 0;
}

}  // namespace

int bench_command(const Flags& f) {
  static const std::vector<std::string> known{"step", "probes", "norms"};
  if (f.args.size() != 1)
    bad_input("name what to time: `plumb bench step`, `plumb bench probes` or `plumb bench norms`");
  if (std::ranges::find(known, f.args.front()) == known.end())
    bad_input("{}", unknown_name("benchmark", f.args.front(), known));
  Flags rest = f;
  rest.args.clear();
  const Config config = resolve_config(config_of(rest));
  note_faults(config, f.quiet);
  ThreadPool pool(static_cast<int>(config.train.threads));
  if (!f.layers.empty() && !f.peer.empty())
    bad_input("--peer and --layers are two benchmarks; give one of them");
  if (f.args.front() != "step") {
    if (!f.layers.empty() || !f.peer.empty()) bad_input("--peer and --layers belong to `plumb bench step`");
    return f.args.front() == "norms" ? bench_norms(f.rounds, f.json, f.quiet, pool)
                                     : bench_probes(f, config, pool);
  }
  if (!f.layers.empty()) return bench_layers(f, config, pool);

  StepBench bench(config, pool);
  double peak = 0, step = 1e9, floor = 1e9, peer = 1e9;
  for (int round = 0; round < f.rounds; ++round) {  // in turn, so that all see the same weather
    peak = std::max(peak, peak_flops(pool));
    for (int i = 0; i < 4; ++i) step = std::min(step, bench.step());
    for (int i = 0; i < 2; ++i) floor = std::min(floor, bench.products());
    if (!f.peer.empty()) peer = std::min(peer, peer_ms(f.peer));
    if (!f.quiet) say("round {}/{}: best so far {:.1f} ms\n", round + 1, f.rounds, step * 1e3);
  }
  const auto ops = bench.by_op(4);
  const double gflops = bench.flops() / step / 1e9;
  if (f.json) {
    Json j = Json::object(), by = Json::object();
    j["ms_per_step"] = step * 1e3;
    j["tokens_per_s"] = bench.tokens() / step;
    j["gflops"] = gflops;
    j["peak_gflops"] = peak / 1e9;
    j["of_peak"] = gflops * 1e9 / peak;
    j["floor_ms"] = floor * 1e3;
    j["ratio_to_floor"] = step / floor;
    j["threads"] = pool.size();
    j["target"] = simd_target();
    if (!f.peer.empty()) j["peer_ms_per_step"] = peer;
    for (const auto& [name, ms] : ops) by[name] = ms;
    j["by_op"] = by;
    fmt::print("{}\n", j.dump());
    return 0;
  }
  fmt::print("one step: {:.1f} ms, {:.0f} tokens/s, {:.2f} GFLOP, {:.1f} GFLOP/s\n", step * 1e3,
             bench.tokens() / step, bench.flops() / 1e9, gflops);
  fmt::print("peak of {} thread{} ({}): {:.1f} GFLOP/s measured; the step reaches {:.1f} % of it\n",
             pool.size(), pool.size() == 1 ? "" : "s", simd_target(), peak / 1e9, 100 * gflops * 1e9 / peak);
  fmt::print("its linear layers alone: {:.1f} ms; the step is {:.2f} times that\n", floor * 1e3,
             step / floor);
  if (!f.peer.empty()) fmt::print("peer: {:.1f} ms a step, {:.2f} times ours\n", peer, peer / (step * 1e3));
  fmt::print("\nms a step by op (thread time / threads; timing itself costs about 1 %):\n");
  for (const auto& [name, ms] : ops) fmt::print("  {:<28} {:8.2f}\n", name, ms);
  return 0;
}

}  // namespace plumb::cli
