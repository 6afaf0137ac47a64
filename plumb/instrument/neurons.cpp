// The slots of the feed-forward layers: which are used, where each fires, in words, and what it makes likely.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "plumb/base/char_class.h"
#include "plumb/base/error.h"
#include "plumb/base/text.h"
#include "plumb/base/wrap.h"
#include "plumb/instrument/instrument.h"
#include "plumb/kernel/measure.h"
#include "plumb/study/audit.h"
#include "plumb/study/firing_rule.h"

namespace plumb {
namespace {

constexpr std::int64_t least_places = 4096;
constexpr std::size_t peak_rank = 10, before_token = 11, n_tokens = 5, n_contexts = 3, least_seen = 3;
constexpr double small_activation = 0.1, same_key = 0.95;

// The batches that are looked at: some of those that training would see next.
struct NeuronText {
  explicit NeuronText(const Patient& p) : block(p.block()) {
    const std::int64_t n = (least_places + p.rows() - 1) / p.rows();
    for (std::int64_t k = 0; k < n; ++k) {
      auto& x = batches.emplace_back(p.x.size());
      std::vector<std::int32_t> y(x.size());
      p.feed.fill(p.step + k, 0, x, y);
      for (std::size_t i = 0; i < x.size(); ++i) {
        if (y[i] == p.spec.ignore_index) continue;
        const auto position = static_cast<std::int64_t>(i) % block;
        rows.push_back({static_cast<std::size_t>(k), i});
        places.push_back({x[i], position > 0 ? x[i - 1] : -1, position, k % 2 == 1});
      }
    }
  }
  struct Row {
    std::size_t batch, at;
  };
  std::int64_t block;
  std::vector<std::vector<std::int32_t>> batches;
  std::vector<Row> rows;           // those that predict something
  std::vector<TokenPlace> places;  // the same
  /// The sequence up to there, or its end, as a person can read it.
  std::string context(const CharTokenizer& t, std::size_t i) const {
    const auto [batch, at] = rows[i];
    const std::size_t n = std::min(at % static_cast<std::size_t>(block), before_token) + 1;
    const auto ids = std::span(batches[batch]).subspan(at + 1 - n, n);
    return visible(utf8_decode(t.decode(ids), "a batch"));
  }
};

// Of one block.
struct FfnSlots {
  std::vector<std::vector<float>> act;  // by slot, then place
  std::vector<std::int64_t> positive;   // places at which the pre-activation is above 0
};

FfnSlots slots_of(Patient& p, std::int64_t layer, const NeuronText& text, const InstrumentOptions& o) {
  FfnSlots s;
  const std::string ffn = block_point(layer, ".ffn"), pre = ffn + ".pre", act = ffn + ".act";
  std::size_t done = 0;  // rows of the batches before
  for (std::size_t k = 0; k < text.batches.size(); ++k) {
    stop_if_asked(o);
    std::size_t end = done;
    while (end < text.rows.size() && text.rows[end].batch == k) ++end;
    p.watch(
        text.batches[k],
        [&](std::string_view point, View<const float> v, std::int64_t first) {
          if (point != pre && point != act) return;
          s.act.resize(static_cast<std::size_t>(v.cols), std::vector<float>(text.rows.size()));
          s.positive.resize(s.act.size());
          for (std::size_t i = done; i < end; ++i) {
            const std::int64_t row = static_cast<std::int64_t>(text.rows[i].at) - first;
            if (row < 0 || row >= v.rows) continue;
            for (std::size_t j = 0; j < s.act.size(); ++j)
              if (!std::isfinite(v.row(row)[j]))
                fail(
                    "[neurons] {} has a value that is not finite, so no order of activations; `plumb doctor` "
                    "looks for where it begins",
                    point);
              else if (point == act)
                s.act[j][i] = v.row(row)[j];
              else
                s.positive[j] += v.row(row)[j] > 0;
          }
        },
        p.step + static_cast<std::int64_t>(k));
    done = end;
  }
  return s;
}

// What one slot does.
struct Neuron {
  std::size_t slot = 0;
  double sign = 1;       // of its larger activations
  double peak = 0;       // the tenth largest of them
  double mean_size = 0;  // of |activation|
  double selective = 0;  // how many standard deviations the peak lies above the mean
  double value = 0;      // length of what it adds at an activation of 1
  std::vector<bool> fires = {};
  std::int64_t firings = 0;
  std::optional<FiringRule> rule = {};
};

Neuron neuron_of(const FfnSlots& s, std::size_t slot, double value) {
  Neuron n{.slot = slot, .value = value};
  std::vector<float> sorted = s.act[slot];
  const auto [low, high] = std::ranges::minmax(sorted);
  n.sign = -low > high ? -1 : 1;
  if (n.sign < 0)
    for (float& x : sorted) x = -x;
  const auto at = static_cast<std::ptrdiff_t>(std::min(peak_rank, sorted.size()) - 1);
  std::ranges::nth_element(sorted, sorted.begin() + at, std::greater());
  n.peak = static_cast<double>(sorted[static_cast<std::size_t>(at)]);
  const auto count = static_cast<std::int64_t>(sorted.size());
  const Moments m = moments(View<const float>{sorted.data(), 1, count, count});
  if (m.std() > 0) n.selective = (n.peak - m.mean) / m.std();
  for (const float x : s.act[slot]) {
    n.mean_size += std::abs(static_cast<double>(x)) / static_cast<double>(count);
    n.fires.push_back(n.peak > 0 && n.sign * static_cast<double>(x) >= n.peak / 2);
    n.firings += n.fires.back();
  }
  return n;
}

const ParamInfo* find_param(const Patient& p, const std::string& name) {
  for (const ParamInfo& i : p.store.layout().params)
    if (i.spec.name == name) return &i;
  return nullptr;
}

double length_of_column(View<const float> w, std::size_t j) {
  double sum = 0;
  for (std::int64_t i = 0; i < w.rows; ++i)
    sum += static_cast<double>(w.row(i)[j]) * static_cast<double>(w.row(i)[j]);
  return std::sqrt(sum);
}

struct KeyCosines {
  double mean = 0, max = -1;
  std::int64_t near = 0;  // pairs that are nearly the same
};

KeyCosines key_cosines(View<const float> w, const InstrumentOptions& o) {
  KeyCosines k;
  std::vector<double> scratch(static_cast<std::size_t>(w.cols));
  k.mean = key_cosine_mean(w, std::span(scratch));
  std::vector<std::vector<float>> unit;
  for (std::int64_t i = 0; i < w.rows; ++i) {
    stop_if_asked(o);
    double squares = 0;
    for (std::int64_t c = 0; c < w.cols; ++c)
      squares += static_cast<double>(w.row(i)[c]) * static_cast<double>(w.row(i)[c]);
    auto& u = unit.emplace_back(w.row(i), w.row(i) + w.cols);
    for (float& x : u) x = squares > 0 ? static_cast<float>(static_cast<double>(x) / std::sqrt(squares)) : 0;
    for (std::int64_t j = 0; j < i; ++j) {
      float dot = 0;
      for (std::size_t c = 0; c < u.size(); ++c) dot += u[c] * unit[static_cast<std::size_t>(j)][c];
      k.max = std::max(k.max, static_cast<double>(dot));
      k.near += static_cast<double>(dot) > same_key;
    }
  }
  return k;
}

// The tokens whose logits a vector of the stream raises most, without the final norm.
std::vector<std::pair<double, std::int32_t>> promoted(const Patient& p, const std::vector<double>& by) {
  std::vector<double> v = by;
  const auto times = [](View<const float> w, const std::vector<double>& x) {
    std::vector<double> y;
    for (std::int64_t i = 0; i < w.rows; ++i) {
      double dot = 0;
      for (std::int64_t c = 0; c < w.cols; ++c)
        dot += static_cast<double>(w.row(i)[c]) * x[static_cast<std::size_t>(c)];
      y.push_back(dot);
    }
    return y;
  };
  if (p.spec.d_embed > 0) v = times(p.store.param("head.project.weight"), v);
  v = times(p.store.param(p.spec.tied_embeddings ? "embed.weight" : "head.weight"), v);
  std::vector<std::pair<double, std::int32_t>> all;
  for (std::size_t id = 0; id < v.size(); ++id) all.emplace_back(v[id], static_cast<std::int32_t>(id));
  const std::size_t n = std::min(n_tokens, all.size());
  std::ranges::partial_sort(all, all.begin() + static_cast<std::ptrdiff_t>(n), std::greater());
  all.resize(n);
  return all;
}

std::string quoted_token(const CharTokenizer& t, std::int32_t id) {
  return fmt::format("'{}'", visible(utf8_decode(t.decode({&id, 1}), "a token")));
}

class BlockReport {
 public:
  BlockReport(Patient& p, std::int64_t layer, const NeuronText& text, const FiringRules& rules,
              const InstrumentOptions& o)
      : p_(p),
        o_(o),
        text_(text),
        rules_(rules),
        layer_(layer),
        ffn_(block_point(layer, ".ffn")),
        slots_(slots_of(p, layer, text, o)) {}

  Json write(std::string& out) {
    row_["layer"] = layer_, row_["slots"] = slots_.act.size();
    if (slots_.act.empty()) {
      const std::string why =
          fmt::format("a feed-forward layer of kind {} has no slots at a named point, so none is looked at",
                      p_.spec.ffn.kind);
      row_["nothing"] = why;
      out += fmt::format("block {}: {}\n", layer_, wrapped(why, o_.width, 9));
      return row_;
    }
    find_neurons();
    out += fmt::format("block {}: ", layer_) + wrapped(usage(), o_.width, 9) + "\n";
    out += "  keys: " + wrapped(keys(), o_.width, 8) + "\n";
    out += "  " + wrapped(plain_rules(), o_.width, 4) + "\n";
    shown_ = Json::array();
    list(out, "active", "those that write most (mean |activation| times the length of the value)",
         [](const Neuron& n) { return n.mean_size * n.value; });
    // Of a slot that writes next to nothing it does not matter where it fires.
    std::vector<double> sizes;
    for (const Neuron& n : neurons_) sizes.push_back(n.peak * n.value);
    std::ranges::nth_element(sizes, sizes.begin() + std::ssize(sizes) / 2);
    const double median = sizes[sizes.size() / 2];
    list(out, "selective",
         "the most selective (peak over mean, in standard deviations) of the half with the largest peaks",
         [&](const Neuron& n) { return n.peak * n.value >= median ? n.selective : 0; });
    row_["neurons"] = shown_;
    return row_;
  }

 private:
  View<const float> weight(const char* end) const { return p_.store.param(ffn_ + end); }

  void find_neurons() {
    const View<const float> w = weight(".out.weight");
    for (std::size_t j = 0; j < slots_.act.size(); ++j) {
      stop_if_asked(o_);
      neurons_.push_back(neuron_of(slots_, j, length_of_column(w, j)));
      neurons_.back().rule = rules_.best(neurons_.back().fires);
    }
  }

  std::string usage() {
    const auto n = static_cast<double>(slots_.act.size());
    const auto never = std::ranges::count(slots_.positive, 0);
    const auto small = std::ranges::count_if(slots_.act, [](const std::vector<float>& a) {
      return std::ranges::none_of(
          a, [](float x) { return std::abs(static_cast<double>(x)) > small_activation; });
    });
    const double rate = static_cast<double>(std::reduce(slots_.positive.begin(), slots_.positive.end())) /
                        (n * static_cast<double>(text_.rows.size()));
    row_["positions"] = text_.rows.size(), row_["active"] = rate, row_["never_positive"] = never,
    row_["never_above_0.1"] = small;
    return fmt::format(
        "{} slots at {} positions: {:.1f}% of pre-activations are above 0; slots that are dead (never above "
        "0): {}, "
        "whose |activation| never passes {}: {}",
        slots_.act.size(), text_.rows.size(), 100 * rate, never, small_activation, small);
  }

  std::string keys() {
    const View<const float> w = weight(find_param(p_, ffn_ + ".gate.weight") ? ".gate.weight" : ".in.weight");
    const KeyCosines k = key_cosines(w, o_);
    const auto n = static_cast<double>(w.rows), d = static_cast<double>(w.cols);
    const double spread = 1 / std::sqrt(d), most = std::sqrt(2 * std::log(n * (n - 1) / 2) / d);
    Json j = Json::object(), random = Json::object();
    random["mean"] = 0.0, random["std"] = spread, random["max"] = most;
    j["mean"] = k.mean, j["max"] = k.max, j["near_duplicates"] = k.near, j["random"] = random;
    row_["key_cosine"] = j;
    return fmt::format(
        "cosine of two {} on average, at most {} (random keys: 0, each pair with a standard deviation of "
        "{:.3f}, at most about {:.2f}); {} {} above {}",
        number_text(k.mean, "{:.3f}"), number_text(k.max, "{:.2f}"), spread, most, k.near,
        k.near == 1 ? "pair" : "pairs", same_key);
  }

  std::string plain_rules() {
    std::int64_t with = 0, by_kind[std::size(firing_rule_kinds)] = {};
    for (const Neuron& n : neurons_)
      if (n.rule) ++with, ++by_kind[static_cast<std::size_t>(n.rule->kind)];
    Json kinds = Json::object();
    std::vector<std::string> parts;
    for (std::size_t i = 0; i < std::size(firing_rule_kinds); ++i) {
      kinds[firing_rule_kinds[i]] = by_kind[i];
      if (by_kind[i] > 0) parts.push_back(fmt::format("{} {}", by_kind[i], firing_rule_kinds[i]));
    }
    row_["with_rule"] = with, row_["rules"] = kinds;
    return fmt::format("a plain rule says where {} of {} fire{}{}", with, neurons_.size(),
                       parts.empty() ? "" : ": ", join(parts));
  }

  // The first --top by `size`, of those that are not in a list yet.
  template <class F>
  void list(std::string& out, std::string_view name, std::string_view title, const F& size) {
    std::vector<const Neuron*> order;
    for (const Neuron& n : neurons_)
      if (n.peak > 0 && !listed_.contains(n.slot)) order.push_back(&n);
    std::ranges::stable_sort(order, [&](const Neuron* a, const Neuron* b) { return size(*a) > size(*b); });
    order.resize(std::min(order.size(), static_cast<std::size_t>(std::max<std::int64_t>(0, o_.top))));
    if (order.empty()) return;
    out += "  " + wrapped(fmt::format("{}:", title), o_.width, 2) + "\n";
    for (const Neuron* n : order) {
      listed_.insert(n->slot);
      show(out, name, *n);
    }
  }

  void show(std::string& out, std::string_view list_name, const Neuron& n) {
    const CharTokenizer& t = p_.feed.tokenizer();
    const auto& act = slots_.act[n.slot];
    const double share = static_cast<double>(n.firings) / static_cast<double>(act.size());
    Json j = Json::object();
    j["list"] = std::string(list_name), j["neuron"] = n.slot, j["sign"] = n.sign, j["peak"] = n.peak,
    j["fires"] = share, j["mean_size"] = n.mean_size, j["selective"] = n.selective, j["value"] = n.value,
    j["rule"] = nullptr;
    std::string head = fmt::format("neuron {}{}: fires ", n.slot, n.sign < 0 ? " (its negative side)" : "");
    if (n.rule) {
      Json rule = Json::object();
      rule["words"] = n.rule->words,
      rule["kind"] = std::string(firing_rule_kinds[static_cast<std::size_t>(n.rule->kind)]),
      rule["precision"] = n.rule->precision, rule["recall"] = n.rule->recall, rule["base"] = n.rule->base;
      j["rule"] = rule;
      head += fmt::format("{}{} (precision {:.2f}, recall {:.2f})", n.rule->recall < 0.5 ? "sometimes " : "",
                          n.rule->words, n.rule->precision, n.rule->recall);
    } else {
      head += "by no plain rule";
    }
    head += fmt::format(", at {:.1f}% of positions", 100 * share);
    out += "    " + wrapped(head, o_.width, 6) + "\n";
    out += "      excited by " + wrapped(tokens(n, t, j), o_.width, 17) + "\n";
    out += "      at the end of " + wrapped(contexts(n, t, j), o_.width, 20) + "\n";
    out += "      makes likely " + wrapped(promotes(n, t, j), o_.width, 19) + "\n";
    shown_.push_back(j);
  }

  // Tokens at which the activation is largest on average.
  std::string tokens(const Neuron& n, const CharTokenizer& t, Json& j) const {
    std::map<std::int32_t, Mean> by;
    for (std::size_t i = 0; i < text_.places.size(); ++i)
      by[text_.places[i].token].add(n.sign * static_cast<double>(slots_.act[n.slot][i]));
    std::vector<std::pair<double, std::int32_t>> order;
    for (const auto& [token, mean] : by)
      if (mean.count >= static_cast<std::int64_t>(least_seen)) order.emplace_back(mean.value(), token);
    std::ranges::sort(order, std::greater());
    order.resize(std::min(order.size(), n_tokens));
    Json all = Json::array();
    std::vector<std::string> words;
    for (const auto& [mean, token] : order) {
      Json one = Json::object();
      one["token"] = t.decode({&token, 1}), one["mean"] = n.sign * mean;
      all.push_back(one);
      words.push_back(fmt::format("{} {:.2f}", quoted_token(t, token), n.sign * mean));
    }
    j["tokens"] = all;
    return join(words);
  }

  // Where the activation is largest.
  std::string contexts(const Neuron& n, const CharTokenizer& t, Json& j) const {
    const auto& act = slots_.act[n.slot];
    std::vector<std::size_t> order(act.size());
    std::iota(order.begin(), order.end(), 0U);
    const auto size = [&](std::size_t i) { return n.sign * static_cast<double>(act[i]); };
    std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return size(a) > size(b); });
    Json all = Json::array();
    std::vector<std::string> words;
    std::set<std::string> seen;
    for (const std::size_t i : order) {
      const std::string text = text_.context(t, i);
      if (!seen.insert(text).second) continue;
      Json one = Json::object();
      one["text"] = text, one["position"] = text_.places[i].position, one["activation"] = act[i];
      all.push_back(one);
      words.push_back(fmt::format("\"{}\" {:.2f}", text, act[i]));
      if (words.size() == n_contexts) break;
    }
    j["contexts"] = all;
    return join(words);
  }

  std::string promotes(const Neuron& n, const CharTokenizer& t, Json& j) const {
    const View<const float> w = weight(".out.weight");
    std::vector<double> value;
    for (std::int64_t i = 0; i < w.rows; ++i) value.push_back(n.sign * static_cast<double>(w.row(i)[n.slot]));
    Json all = Json::array();
    std::vector<std::string> words;
    for (const auto& [logit, token] : promoted(p_, value)) {
      Json one = Json::object();
      one["token"] = t.decode({&token, 1}), one["logit"] = logit;
      all.push_back(one);
      words.push_back(quoted_token(t, token));
    }
    j["promotes"] = all;
    return join(words, " ");
  }

  Patient& p_;
  const InstrumentOptions& o_;
  const NeuronText& text_;
  const FiringRules& rules_;
  std::int64_t layer_;
  std::string ffn_;
  FfnSlots slots_;
  std::vector<Neuron> neurons_;
  std::set<std::size_t> listed_;
  Json row_ = Json::object(), shown_;
};

Reading neurons_read(Patient& p, const InstrumentOptions& o) {
  const NeuronText text(p);
  const FiringRules rules(text.places, p.feed.tokenizer(), text.block);
  Reading r{.text = "", .json = Json::object()};
  Json layers = Json::array();
  for (const std::int64_t layer : layers_of(p, o))
    layers.push_back(BlockReport(p, layer, text, rules, o).write(r.text));
  r.json["layers"] = layers;
  return r;
}

}  // namespace

namespace entries::instrument {
extern constexpr InstrumentEntry neurons = {
    .name = "neurons",
    .measures =
        "how many slots of each feed-forward layer are used, where the first of them fire, in words, "
        "and which tokens they make likely",
    .how =
        "A feed-forward layer is read as a memory (Geva et al. 2021, arXiv 2012.14913): rows of its first "
        "matrix (the gate's, in gated kinds) are keys, columns of its last are values. A slot is dead when "
        "its pre-activation is never above 0, or, by a second count, when its |activation| is never above "
        "0.1. Random keys in d dimensions have cosines of mean 0 and standard deviation 1/sqrt(d), at most "
        "about "
        "sqrt(2 ln(n(n-1)/2)/d); pairs above 0.95 do one slot's work twice. A neuron fires where its "
        "activation is at least half of its peak, the tenth largest of some 4000 positions, on the side, "
        "above or below 0, that has the larger ones. The rules: on or after a token, on or after a kind of "
        "character, by position; the one with the best F1 score on half of the batches is kept when, on the "
        "other half, its precision lies at least half way from the share of positions where it holds to 1 "
        "and its recall is at least 0.1. "
        "Made likely: the value times the unembedding, without the final norm; matrices are taken as stored. "
        "Untrained neurons have such rules too, as a drawn key lies nearer to some tokens: hold the count "
        "against the same config before training. A neuron without a plain rule is not a useless one: many "
        "fire on several things (Elhage et al. "
        "2022, "
        "arXiv 2209.10652).",
    .read = neurons_read,
};
}  // namespace entries::instrument

}  // namespace plumb
