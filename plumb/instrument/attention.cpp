// What each head of attention looks at, and how alike the heads of a block are.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "plumb/attention/attention.h"
#include "plumb/base/wrap.h"
#include "plumb/instrument/instrument.h"
#include "plumb/kernel/measure.h"
#include "plumb/study/audit.h"

namespace plumb {
namespace {

// What a head of a known kind looks at, and what it takes to be one: see `how`.
constexpr std::array<std::string_view, 3> head_places{"self", "first", "previous"};
constexpr double toward_one = 0.5, broad_entropy = 0.9;

struct HeadSight {
  std::array<Mean, head_places.size()> on = {};  // weight on each place
  Mean entropy;
  double max_logit = -std::numeric_limits<double>::infinity();
};

struct BlockSight {
  explicit BlockSight(std::int64_t n_head)
      : heads(static_cast<std::size_t>(n_head)), pairs(heads.size() * heads.size()) {}
  std::vector<HeadSight> heads;
  std::array<Mean, head_places.size()> uniform = {};  // weight on each place of uniform attention
  std::vector<Mean> pairs;                            // divergence of heads a < b, at a n_head + b
  Mean& pair(std::size_t a, std::size_t b) { return pairs[a * heads.size() + b]; }
};

double row_entropy(std::span<const double> p) {
  double h = 0;
  for (const double x : p)
    if (x != 0) h -= x * std::log(x);  // NaN stays
  return h;
}

// The rows of all heads at one position i of one sequence. Keys that are not seen are left out: their
// weight is 0.
class RowsOfHeads {
 public:
  RowsOfHeads(View<const float> v, std::int64_t sequence, std::int64_t n_head, std::int64_t i,
              std::int64_t from, std::int64_t to)
      : i_(i), from_(from), visible_(to - from) {
    for (std::int64_t h = 0; h < n_head; ++h) {
      const float* row = v.row((sequence * n_head + h) * v.cols + i);
      rows_.emplace_back(row + from, row + to);
      entropy_.push_back(row_entropy(rows_.back()));
    }
  }

  void add_to(BlockSight& b) const {
    const std::int64_t columns[head_places.size()] = {i_, 0, i_ - 1};
    for (std::size_t at = 0; at < head_places.size(); ++at) {
      const std::int64_t column = columns[at] - from_;
      const bool seen = column >= 0;  // the first token may lie outside of a window
      b.uniform[at].add(seen ? 1 / static_cast<double>(visible_) : 0);
      for (std::size_t h = 0; h < rows_.size(); ++h)
        b.heads[h].on[at].add(seen ? rows_[h][static_cast<std::size_t>(column)] : 0);
    }
    for (std::size_t h = 0; h < rows_.size(); ++h)
      b.heads[h].entropy.add(normalised_entropy(entropy_[h], visible_));
    std::vector<double> middle(rows_.front().size());
    for (std::size_t h = 0; h < rows_.size(); ++h)
      for (std::size_t g = h + 1; g < rows_.size(); ++g) {
        for (std::size_t j = 0; j < middle.size(); ++j) middle[j] = (rows_[h][j] + rows_[g][j]) / 2;
        // Not below 0 by rounding; NaN stays.
        b.pair(h, g).add(std::max(row_entropy(middle) - (entropy_[h] + entropy_[g]) / 2, 0.0));
      }
  }

 private:
  std::int64_t i_, from_, visible_;
  std::vector<std::vector<double>> rows_;
  std::vector<double> entropy_;
};

// f(sequence of the view, position) for each row of queries of `v` (sequences, H, T, T).
template <class F>
void each_query(const Patient& p, View<const float> v, std::int64_t first, const F& f) {
  const std::int64_t t = v.cols, of_sequence = p.spec.n_head * t;
  for (std::int64_t s = 0; s < v.rows / of_sequence; ++s)
    for (std::int64_t i = 0; i < t; ++i) {
      const std::int64_t sequence = first / of_sequence + s;
      // What stands behind the end of a padded row predicts nothing.
      if (p.y[static_cast<std::size_t>(sequence * t + i)] == p.spec.ignore_index) continue;
      f(s, i);
    }
}

std::string_view head_kind(const HeadSight& h, const BlockSight& b) {
  if (h.entropy.count == 0) return "one key";  // blocks of one position
  std::size_t most = 0;
  std::array<double, head_places.size()> beyond{};
  for (std::size_t at = 0; at < head_places.size(); ++at) {
    const double uniform = b.uniform[at].value();
    beyond[at] = (h.on[at].value() - uniform) / (1 - uniform);
    if (beyond[at] > beyond[most]) most = at;
  }
  if (beyond[most] >= toward_one) return head_places[most];
  return h.entropy.value() >= broad_entropy ? "broad" : "mixed";
}

Json places_json(const std::array<Mean, head_places.size()>& on) {
  Json j = Json::object();
  for (std::size_t at = 0; at < head_places.size(); ++at) j[head_places[at]] = on[at].value();
  return j;
}

std::string head_line(std::int64_t layer, std::string_view head,
                      const std::array<Mean, head_places.size()>& on, double entropy, std::string_view logit,
                      std::string_view kind) {
  std::string text = fmt::format("{:>5}  {:>4}", layer, head);
  for (const Mean& m : on) text += fmt::format("  {:>8}", number_text(m.value(), "{:.3f}"));
  return text + fmt::format("  {:>7}  {:>8}  {}\n", number_text(entropy, "{:.2f}"), logit, kind);
}

void report_heads(std::int64_t layer, BlockSight& b, Reading& r, Json& all) {
  Json row = Json::object(), heads = Json::array();
  row["layer"] = layer, row["uniform"] = places_json(b.uniform);
  r.text += head_line(layer, "", b.uniform, 1, "", "(what uniform attention would have)");
  for (std::size_t h = 0; h < b.heads.size(); ++h) {
    const HeadSight& head = b.heads[h];
    Json one = places_json(head.on);
    one["head"] = h, one["entropy"] = head.entropy.value(), one["max_logit"] = head.max_logit;
    one["kind"] = std::string(head_kind(head, b));
    heads.push_back(one);
    r.text += head_line(layer, fmt::format("{}", h), head.on, head.entropy.value(),
                        number_text(head.max_logit, "{:.2f}"), head_kind(head, b));
  }
  row["heads"] = heads;
  row["divergence"] = nullptr;
  if (b.heads.size() > 1) {
    Mean mean;
    std::size_t alike[2] = {0, 1};
    for (std::size_t h = 0; h < b.heads.size(); ++h)
      for (std::size_t g = h + 1; g < b.heads.size(); ++g) {
        mean.add(b.pair(h, g).value());
        if (b.pair(h, g).value() < b.pair(alike[0], alike[1]).value()) alike[0] = h, alike[1] = g;
      }
    const double least = b.pair(alike[0], alike[1]).value();
    row["divergence"] = mean.value();
    Json nearest = Json::object();
    nearest["heads"] =
        std::vector<std::int64_t>{static_cast<std::int64_t>(alike[0]), static_cast<std::int64_t>(alike[1])};
    nearest["divergence"] = least;
    row["most_alike"] = nearest;
    r.text += fmt::format(
        "       two heads differ by {} nats (0: the same; {:.2f}: no key in common); most alike: {} and {}, "
        "{}\n",
        number_text(mean.value(), "{:.3f}"), std::numbers::ln2, alike[0], alike[1],
        number_text(least, "{:.3f}"));
  }
  all.push_back(row);
}

Reading attention_read(Patient& p, const InstrumentOptions& o) {
  const auto layers = layers_of(p, o);
  std::vector<BlockSight> blocks(static_cast<std::size_t>(p.spec.n_layer), BlockSight(p.spec.n_head));
  const auto& flaws = p.spec.flaws;
  p.watch_attention([&](std::string_view point, View<const float> v, std::int64_t first) {
    for (const std::int64_t layer : layers) {
      const std::string name = block_point(layer, ".attn");
      if (!point.starts_with(name)) continue;
      const Mask mask{flaws.mask_ahead, flaws.mask_finite, flaws.mask_value,
                      p.spec.attention.window_of(layer)};
      BlockSight& b = blocks[static_cast<std::size_t>(layer)];
      const std::int64_t t = v.cols, n = p.spec.n_head;
      if (point == name + ".scores")
        each_query(p, v, first, [&](std::int64_t s, std::int64_t i) {
          for (std::int64_t h = 0; h < n; ++h) {
            double& most = b.heads[static_cast<std::size_t>(h)].max_logit;
            const float* row = v.row((s * n + h) * t + i);
            for (std::int64_t j = mask.first(i); j < mask.last(i, t); ++j)
              if (const auto x = static_cast<double>(row[j]); x > most || std::isnan(x)) most = x;
          }
        });
      if (point == name + ".weights")
        each_query(p, v, first, [&](std::int64_t s, std::int64_t i) {
          stop_if_asked(o);
          const std::int64_t from = mask.first_seen(i), to = mask.last_seen(i, t);
          if (i > 0 && to - from > 1) RowsOfHeads(v, s, n, i, from, to).add_to(b);
        });
    }
  });
  Reading r{.text = fmt::format("{:>5}  {:>4}  {:>8}  {:>8}  {:>8}  {:>7}  {:>8}  {}\n", "block", "head",
                                "self", "first", "previous", "entropy", "logit", "kind"),
            .json = Json::object()};
  Json all = Json::array();
  for (const std::int64_t layer : layers)
    report_heads(layer, blocks[static_cast<std::size_t>(layer)], r, all);
  r.json["layers"] = all;
  return r;
}

}  // namespace

namespace entries::instrument {
extern constexpr InstrumentEntry attention = {
    .name = "attention",
    .measures =
        "where each head looks, how widely, its largest logit, and how alike the heads of a block are",
    .how =
        "Mean weight of a query on its own position, on the first token and on the token before, over "
        "positions that see two keys or more; entropy over ln(visible keys), 1: spread evenly, 0: on one "
        "key. "
        "A head is named for the place whose weight lies at least half way from that of uniform attention to "
        "1; "
        "else it is broad (entropy of at least 0.9) or mixed. Runs whose logits pass 1e4 diverge (Wortsman "
        "et al. "
        "2023, arXiv 2309.14322). Heads are alike where the Jensen-Shannon divergence of their rows, in "
        "nats, "
        "is near 0; ln 2 is the most. Heads that attend alike do the same work where their values are alike "
        "too; many heads can be left out (Michel et al. 2019, arXiv 1905.10650). Weight on the first token "
        "is often a rest, not a reading (Xiao et al. 2023, arXiv 2309.17453).",
    .read = attention_read,
};
}  // namespace entries::instrument

}  // namespace plumb
