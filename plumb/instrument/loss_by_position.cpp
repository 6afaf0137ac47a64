// Does more context help? The loss by position in the block.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plumb/base/wrap.h"
#include "plumb/instrument/instrument.h"
#include "plumb/model/decoder.h"

namespace plumb {
namespace {
namespace loss_by_position_parts {

constexpr std::int64_t batches = 16, sequences = 8, most_bins = 16;

struct Sums {
  double loss = 0, squares = 0;
  std::int64_t tokens = 0;
  double mean() const { return loss / static_cast<double>(tokens); }
  double error() const {
    const auto n = static_cast<double>(tokens);
    return std::sqrt(std::max(0.0, squares / n - mean() * mean()) / n);
  }
  void add(const Sums& o) { loss += o.loss, squares += o.squares, tokens += o.tokens; }
};

class TokenLoss final : public Hook<float> {
 public:
  bool wants(std::string_view point, Dir dir) const override {
    return point == "loss.token" && dir == Dir::forward;
  }
  void begin(int n_shard) override { parts.assign(static_cast<std::size_t>(n_shard), {}); }
  void at(std::string_view, Dir, View<float> v, int shard) override {
    for (std::int64_t i = 0; i < v.rows; ++i) parts[static_cast<std::size_t>(shard)].push_back(*v.row(i));
  }
  std::vector<std::vector<float>> parts;
};

std::vector<Sums> measured(Patient& p, const InstrumentOptions& o) {
  TokenLoss hook;
  Hook<float>* hooks[] = {&hook};
  ThreadPool pool(static_cast<int>(p.sick.train.threads));
  Plan<float> plan = make_plan<float>(p.spec, p.components, p.store,
                                      {.mode = p.faults.evaluate_in_training_mode ? Mode::train : Mode::eval,
                                       .batch = sequences,
                                       .block = p.block()},
                                      pool, hooks);
  std::vector<std::int32_t> x(static_cast<std::size_t>(sequences * p.block())), y(x.size());
  std::vector<Sums> at(static_cast<std::size_t>(p.block()));
  for (std::int64_t i = 0; i < batches; ++i) {
    stop_if_asked(o);
    p.feed.fill(p.step, i * sequences, x, y);
    plan.loss(x, y, {p.step, i * sequences});
    std::size_t token = 0;  // shards hold whole sequences, one behind the other
    for (const auto& part : hook.parts)
      for (const float loss : part) {
        const std::size_t t = token++;
        if (y[t] < 0) continue;
        at[t % at.size()].add({loss, static_cast<double>(loss) * static_cast<double>(loss), 1});
      }
  }
  return at;
}

}  // namespace loss_by_position_parts

Reading loss_by_position_read(Patient& p, const InstrumentOptions& o) {
  using namespace loss_by_position_parts;
  const std::vector<Sums> at = measured(p, o);
  const std::int64_t block = p.block(), width = (block + most_bins - 1) / most_bins;
  struct Bin {
    std::int64_t from, to;
    Sums sums;
  };
  std::vector<Bin> bins;
  Sums all;
  double most = 0;
  for (std::int64_t from = 0; from < block; from += width) {
    Bin b{from, std::min(block, from + width) - 1, {}};
    for (std::int64_t t = b.from; t <= b.to; ++t) b.sums.add(at[static_cast<std::size_t>(t)]);
    if (b.sums.tokens == 0) continue;  // padding alone
    all.add(b.sums);
    most = std::max(most, b.sums.mean());
    bins.push_back(b);
  }

  Reading r{.text = fmt::format("{:>10}  {:>8}  {:>7}\n", "positions", "loss", "+-"), .json = Json::object()};
  Json rows = Json::array(), positions = Json::array();
  for (const Bin& b : bins) {
    const double loss = b.sums.mean(), error = b.sums.error();
    const double part = std::isfinite(loss) && most > 0 ? loss / most : 0;
    r.text += fmt::format("{:>10}  {:>8}  {:>7}  {}\n",
                          b.from == b.to ? fmt::format("{}", b.from) : fmt::format("{} to {}", b.from, b.to),
                          number_text(loss, "{:.4f}"), number_text(error, "{:.4f}"),
                          std::string(static_cast<std::size_t>(std::lround(40 * part)), '#'));
    Json row = Json::object();
    row["from"] = b.from, row["to"] = b.to, row["loss"] = loss, row["standard_error"] = error;
    row["tokens"] = b.sums.tokens;
    rows.push_back(row);
  }
  for (const Sums& s : at) positions.push_back(s.tokens > 0 ? Json(s.mean()) : Json());
  const double gain = bins.front().sums.mean() - bins.back().sums.mean();
  const double doubt = std::hypot(bins.front().sums.error(), bins.back().sums.error());
  const Baselines& base = p.feed.baselines();
  r.text += wrapped(
      fmt::format(
          "The last positions are {} +- {} nats better than the first. Without context: unigram {:.4f}; "
          "with one token of it: bigram {:.4f}.",
          number_text(gain, "{:.4f}"), number_text(doubt, "{:.4f}"), base.unigram, base.bigram),
      o.width, 0);
  r.text += '\n';
  r.json["bins"] = rows, r.json["by_position"] = positions, r.json["loss"] = all.mean();
  r.json["tokens"] = all.tokens, r.json["gain"] = gain, r.json["gain_standard_error"] = doubt;
  r.json["unigram"] = base.unigram, r.json["bigram"] = base.bigram;
  return r;
}

}  // namespace

namespace entries::instrument {
extern constexpr InstrumentEntry loss_by_position = {
    .name = "loss_by_position",
    .measures = "the loss by position in the block: whether more context helps",
    .how =
        "Mean and standard error of the tokens' losses over 16 batches of 8 sequences that training would "
        "read next, in at "
        "most 16 bins. To be held against the first bin, which has the least context, and against the "
        "unigram's loss, which a "
        "model that reads no context has at every position. Late tokens that are predicted better than early "
        "ones are what "
        "in-context learning is measured by (Olsson et al. 2022, arXiv 2209.11895). A rise at the end is a "
        "position code "
        "that fails there. `plumb eval` has the same of the validation split, by block size.",
    .read = loss_by_position_read,
};
}  // namespace entries::instrument

}  // namespace plumb
