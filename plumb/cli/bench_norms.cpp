// plumb bench norms: forward and backward of each norm, in bytes a second beside what copying the same bytes
// takes.
#include "plumb/cli/bench_norms.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <deque>

#include "plumb/base/clock.h"
#include "plumb/base/json.h"
#include "plumb/base/rng.h"
#include "plumb/cli/say.h"
#include "plumb/kernel/peak.h"
#include "plumb/model/decoder.h"
#include "plumb/model/ends.h"

namespace plumb::cli {
namespace {

constexpr std::int64_t table_rows = 256;  // what the norm reads is looked up in a table of so many rows

/// One norm of (rows, width), a shard for each thread, so that nothing stays in a cache by being cut small.
class NormBench {
 public:
  NormBench(const NormEntry& entry, const DecoderSpec& s, std::int64_t rows, ThreadPool& pool)
      : width_(s.d_model),
        block_(rows / pool.size()),
        store_(graph(entry, s).layout(), 0),
        plan_(graph(entry, s), store_, {.batch = pool.size(), .block = block_, .shard_tokens = block_}, pool,
              {}) {
    for (std::int64_t i = 0; i < pool.size() * block_; ++i) {
      x_.push_back(static_cast<std::int32_t>(i % table_rows));
      y_.push_back(static_cast<std::int32_t>(i % width_));
    }
    plan_.time_ops(true);
  }

  /// Seconds of the norm's forward and backward, by the threads together.
  double seconds(std::string_view kind) {
    plan_.op_seconds();
    plan_.loss_and_grad(x_, y_);
    double total = 0;
    for (const auto& [name, s] : plan_.op_seconds())
      if (name.starts_with(kind)) total += s;
    return total / static_cast<double>(plan_.options().batch);
  }

  /// x is read and y written forward; dy and x are read and dx is written backward.
  double bytes() const {
    return 5.0 * static_cast<double>(plan_.options().batch * block_ * width_) * sizeof(float);
  }

 private:
  static GraphOf<float> graph(const NormEntry& entry, const DecoderSpec& s) {
    Builder<float> b({.init =
                          [](const ParamSpec&, double) {
                            return ParamRule{ParamRule::Kind::normal, 1};
                          }},
                     Mode::train, {});
    const Value table = b.param({.name = "x", .shape = {{'V', table_rows}, {'C', s.d_model, true}}});
    const auto norm = entry.make<float>(s);
    token_loss(b, norm->build(b, embed_tokens(b, table, s.block_size), "norm", 0), s.ignore_index);
    return b.finish();
  }
  std::int64_t width_, block_;
  ParamStore<float> store_;
  Plan<float> plan_;
  std::vector<std::int32_t> x_, y_;
};

/// Bytes a second, read and written, of copying `n` floats, each thread its share.
class CopyBench {
 public:
  CopyBench(std::int64_t n, ThreadPool& pool)
      : from_(static_cast<std::size_t>(n), 1.0F), to_(from_.size()), pool_(pool) {}
  double bytes_per_s() {
    const auto share = from_.size() / static_cast<std::size_t>(pool_.size());
    const double t = now_s();
    pool_.run(pool_.size(), [&](std::int64_t i) {
      const auto at = static_cast<std::size_t>(i) * share;
      std::memcpy(to_.data() + at, from_.data() + at, share * sizeof(float));
    });
    return 2.0 * static_cast<double>(share * static_cast<std::size_t>(pool_.size()) * sizeof(float)) /
           (now_s() - t);
  }

 private:
  std::vector<float> from_, to_;
  ThreadPool& pool_;
};

std::string kind_of(const NormEntry& entry, const DecoderSpec& s) {
  const auto norm = entry.make<float>(s);
  Builder<float> b({.init = [](const ParamSpec&, double) { return ParamRule{}; }}, Mode::train, {});
  norm->build(b, embed_tokens(b, b.param({.name = "x", .shape = {{'V', 2}, {'C', s.d_model, true}}}), 2),
              "norm", 0);
  const auto g = b.finish();
  return g.nodes.size() > 1 ? std::string(g.nodes.back().op->info().kind) : std::string();
}

}  // namespace

int bench_norms(int rounds, bool json, bool quiet, ThreadPool& pool) {
  Json sizes = Json::array();
  if (!json)
    fmt::print(
        "float, {} threads, {}; forward and backward, five times the tensor's bytes; best of {} rounds\n",
        pool.size(), simd_target(), rounds);
  for (const auto& [rows, width] :
       {std::pair<std::int64_t, std::int64_t>{2048, 128}, {8192, 1024}, {4096, 4096}}) {
    CopyBench copy(rows * width, pool);
    std::deque<std::pair<NormBench, std::string>> norms;  // a plan keeps pointers into its store
    std::vector<std::string> names;
    for (const NormEntry& entry : norm_table()) {
      DecoderSpec s;
      s.d_model = width, s.block_size = rows / pool.size(), s.norm = entry.name;
      const std::string kind = kind_of(entry, s);
      if (kind.empty() || kind == "batch_norm")
        continue;  // no op of its own; one shard, timed by `bench step`
      names.emplace_back(entry.name);
      norms.emplace_back(std::piecewise_construct, std::forward_as_tuple(entry, s, rows, pool),
                         std::forward_as_tuple(kind));
    }
    double best_copy = 0;
    std::vector<double> best(norms.size(), 1e9);
    for (int round = 0; round < rounds; ++round) {  // in turn, so that all see the same weather
      for (int i = 0; i < 3; ++i) best_copy = std::max(best_copy, copy.bytes_per_s());
      for (std::size_t i = 0; i < norms.size(); ++i)
        best[i] = std::min(best[i], norms[i].first.seconds(norms[i].second));
      if (!quiet) say("{} x {}: round {}/{}\n", rows, width, round + 1, rounds);
    }
    Json size = Json::object(), by = Json::object();
    size["rows"] = rows, size["width"] = width, size["copy_gb_per_s"] = best_copy / 1e9;
    if (!json)
      fmt::print("\n{} x {} ({:.1f} MB): copying {:.1f} GB/s\n", rows, width, double(rows * width) * 4e-6,
                 best_copy / 1e9);
    for (std::size_t i = 0; i < norms.size(); ++i) {
      const double rate = norms[i].first.bytes() / best[i];
      Json row = Json::object();
      row["gb_per_s"] = rate / 1e9, row["of_copy"] = rate / best_copy, row["ms"] = best[i] * 1e3;
      by[names[i]] = row;
      if (!json)
        fmt::print("  {:<10} {:8.2f} ms {:8.1f} GB/s {:6.0f} % of copying\n", names[i], best[i] * 1e3,
                   rate / 1e9, 100 * rate / best_copy);
    }
    size["norms"] = by;
    sizes.push_back(size);
  }
  if (json) {
    Json j = Json::object();
    j["threads"] = pool.size(), j["target"] = simd_target(), j["sizes"] = sizes;
    fmt::print("{}\n", j.dump());
  }
  return 0;
}

}  // namespace plumb::cli
