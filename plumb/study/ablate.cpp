#include "plumb/study/ablate.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "plumb/base/error.h"
#include "plumb/base/rng.h"
#include "plumb/model/decoder.h"
#include "plumb/study/audit.h"
#include "plumb/study/held_out.h"

namespace plumb {
namespace {

constexpr double noise = 0.01;  // of the rms of what it is added to

// The model's parameters while they are changed; as they were at the end.
class Changed {
 public:
  explicit Changed(ParamStore<float>& store)
      : store_(store), before_(store.values().begin(), store.values().end()) {}
  Changed(const Changed&) = delete;
  Changed& operator=(const Changed&) = delete;
  ~Changed() { restore(); }
  void restore() { std::ranges::copy(before_, store_.values().begin()); }

 private:
  ParamStore<float>& store_;
  std::vector<float> before_;
};

// f(weight, its place in the flat buffer, what it becomes where the part is off)
template <class F>
void each_weight(const ParamStore<float>& store, const Slice& s, const F& f) {
  const ParamInfo& info = store.layout().find(s.param);
  const View<float> v = store.view(info);
  const std::int64_t rows = s.n_row > 0 ? s.n_row : v.rows, cols = s.n_col > 0 ? s.n_col : v.cols;
  for (std::int64_t i = s.first_row; i < s.first_row + rows; ++i)
    for (std::int64_t j = s.first_col; j < s.first_col + cols; ++j) {
      const bool one = s.to == Slice::To::one || (s.to == Slice::To::identity && i == j);
      f(v.row(i)[j], static_cast<std::size_t>(info.offset + i * v.cols + j), one ? 1.0F : 0.0F);
    }
}

std::int64_t slots_asked(const std::string& slots, std::int64_t d_ff) {
  if (slots.empty() || slots == "dead") return 0;
  std::int64_t n = 0;
  const auto [end, error] = std::from_chars(slots.data(), slots.data() + slots.size(), n);
  if (error != std::errc() || end != slots.data() + slots.size() || n < 1 || n > d_ff)
    bad_input("--slots '{}' is neither 'dead' nor a number of slots from 1 to d_ff = {}", slots, d_ff);
  return n;
}

class Ablater {
 public:
  Ablater(Patient& p, ThreadPool& pool, const AblateOptions& o)
      : p_(p),
        pool_(pool),
        o_(o),
        n_slot_(slots_asked(o.slots, p.spec.d_ff)),
        parts_(parts_of(p.spec, p.store.layout())),
        held_(p, p.spec, o.sequences, points(), pool) {}

  Ablation run() {
    stop_if_asked();
    whole_ = held_.losses();
    stats_ = held_.look();
    Ablation a{.step = p_.step,
               .sequences = static_cast<std::int64_t>(held_.targets().size()),
               .targets = static_cast<std::int64_t>(held_.n_target()),
               .loss = held_.mean(whole_),
               .baselines = p_.feed.baselines()};
    if (!std::isfinite(a.loss))
      fail(
          "the loss of the whole model is not finite, so that no part of it can be judged; take an earlier "
          "checkpoint");
    if (a.sequences < std::max<std::int64_t>(2, o_.sequences))
      a.remarks.push_back(fmt::format("the validation split has {} sequences, fewer than the {} asked for",
                                      a.sequences, o_.sequences));
    std::erase_if(parts_, [&](const Part& part) { return !can_be_switched(part); });
    if (!o_.slots.empty()) add_slots(a.remarks);
    passes_ = 0;
    for (const Part& part : parts_) passes_ += 2 + (part.weights.empty() ? 0 : o_.draws);
    if (o_.draws > 0) gradient_ = held_.gradient();
    for (const Part& part : parts_) {
      AblatedPart done{part, off(part, false), off(part, true), {}};
      if (o_.draws > 0) done.proxies = proxies(part);
      a.parts.push_back(std::move(done));
    }
    if (o_.draws > 0) a.ranks = ranks(a.parts);
    return a;
  }

 private:
  std::set<std::string> points() const {
    std::set<std::string> all;
    for (const Part& part : parts_) {
      for (const Cut& c : part.cuts) all.insert(c.point);
      if (!part.from.empty()) all.insert(part.from), all.insert(part.to);
    }
    for (std::int64_t i = 0; i < p_.spec.n_layer; ++i)
      for (const char* end : {".in", ".mid"}) all.insert(block_point(i, end));
    for (std::int64_t i = 0; i < p_.spec.n_layer && !o_.slots.empty(); ++i)
      for (const char* end : {".ffn.pre", ".ffn.act"}) all.insert(block_point(i, end));
    return all;
  }

  bool can_be_switched(const Part& part) const {
    switch (part.off) {
      case Part::Off::cuts:
        return std::ranges::all_of(part.cuts, [&](const Cut& c) { return held_.has(c.point); });
      case Part::Off::bypass:
        return held_.has(part.from) && held_.has(part.to);
      case Part::Off::no_position:
        return decoder_layout<float>(without_position(), p_.components) == p_.store.layout();
      case Part::Off::parameters:
        break;
    }
    return true;
  }

  DecoderSpec without_position() const {
    DecoderSpec s = p_.spec;
    s.position = "none";
    return s;
  }

  void stop_if_asked() const {
    if (o_.interrupted && o_.interrupted()) throw Error("interrupted; nothing was written", 130);
  }

  std::vector<double> losses(HeldOut& held, std::span<const Replace> replace = {}) {
    stop_if_asked();
    std::vector<double> sums = held.losses(replace);
    if (o_.progress)
      o_.progress(static_cast<double>(++done_) / static_cast<double>(std::max<std::int64_t>(1, passes_)));
    return sums;
  }

  Effect effect(const std::vector<double>& sums) const {
    return {held_.mean(sums), paired_ratio(sums, whole_, held_.targets())};
  }

  std::optional<Effect> off(const Part& part, bool at_mean) {
    switch (part.off) {
      case Part::Off::cuts: {
        std::vector<Replace> replace;
        for (const Cut& c : part.cuts) {
          replace.push_back({.point = c.point, .first = c.first, .n = c.n});
          if (at_mean) replace.back().by = stats_.at(c.point).mean;
        }
        return effect(losses(held_, replace));
      }
      case Part::Off::bypass: {
        if (at_mean) break;
        const Replace through{.point = part.to, .from = part.from};
        return effect(losses(held_, std::span(&through, 1)));
      }
      case Part::Off::parameters:
        return at_mean && part.kind != "positions" ? std::nullopt : changed(part, at_mean);
      case Part::Off::no_position: {
        if (at_mean) break;
        HeldOut other(p_, without_position(), o_.sequences, {}, pool_);
        return effect(losses(other));
      }
    }
    ++done_;
    return {};
  }

  // At the mean: each row of the table of positions becomes the mean row. Scores that depend on distance have
  // none.
  std::optional<Effect> changed(const Part& part, bool at_mean) {
    const Changed keep(p_.store);
    for (const Slice& s : part.removed) {
      if (!at_mean) {
        each_weight(p_.store, s, [](float& w, std::size_t, float off) { w = off; });
        continue;
      }
      const ParamInfo& info = p_.store.layout().find(s.param);
      if (info.spec.role != Role::pos_embed) return {};
      const View<float> v = p_.store.view(info);
      for (std::int64_t j = 0; j < v.cols; ++j) {
        double sum = 0;
        for (std::int64_t i = 0; i < v.rows; ++i) sum += static_cast<double>(v.row(i)[j]);
        for (std::int64_t i = 0; i < v.rows; ++i)
          v.row(i)[j] = static_cast<float>(sum / static_cast<double>(v.rows));
      }
    }
    return effect(losses(held_));
  }

  Proxies proxies(const Part& part) {
    Proxies found;
    if (part.off == Part::Off::cuts) {
      double squares = 0, columns = 0;
      for (const Cut& c : part.cuts) {
        const std::vector<double>& all = stats_.at(c.point).mean_square;
        const auto n = c.n > 0 ? c.n : static_cast<std::int64_t>(all.size());
        for (std::int64_t j = c.first; j < c.first + n; ++j) squares += all[static_cast<std::size_t>(j)];
        columns += static_cast<double>(n);
      }
      const std::string block = part.name.substr(0, part.name.find('.', std::string("blocks.").size()));
      const bool behind = part.name.starts_with(block + ".ffn") && stats_.contains(block + ".mid");
      if (const auto stream = stats_.find(block + (behind ? ".mid" : ".in")); stream != stats_.end())
        found.activation = std::sqrt(squares / columns) / stream->second.rms();
    }
    if (!part.weights.empty()) {
      double squares = 0;
      for (const Slice& s : part.weights)
        each_weight(p_.store, s,
                    [&](float, std::size_t at, float) { squares += gradient_[at] * gradient_[at]; });
      found.grad_norm = std::sqrt(squares);
      found.perturbation = perturbation(part);
    }
    if (!part.removed.empty()) {
      double sum = 0;
      for (const Slice& s : part.removed)
        each_weight(p_.store, s, [&](float w, std::size_t at, float off) {
          sum += gradient_[at] * (static_cast<double>(off) - static_cast<double>(w));
        });
      found.grad_times_weight = std::abs(sum);
    }
    return found;
  }

  double perturbation(const Part& part) {
    const Stream s = stream(0, "ablate/" + part.name);
    Changed keep(p_.store);
    double sum = 0;
    for (std::int64_t draw = 0; draw < o_.draws; ++draw) {
      keep.restore();
      std::uint64_t sample = 0;
      for (const Slice& slice : part.weights) {
        double squares = 0, n = 0;
        each_weight(p_.store, slice, [&](float w, std::size_t, float) {
          squares += static_cast<double>(w) * static_cast<double>(w), ++n;
        });
        const double std = noise * std::sqrt(squares / n);
        std::uint64_t element = 0;
        each_weight(p_.store, slice, [&](float& w, std::size_t, float) {
          w += static_cast<float>(std * s.normal(static_cast<std::uint64_t>(draw), sample, element++));
        });
        ++sample;
      }
      sum += std::abs(held_.mean(losses(held_)) - held_.mean(whole_));
    }
    return sum / static_cast<double>(o_.draws);
  }

  void add_slots(std::vector<std::string>& remarks) {
    std::string without;
    for (std::int64_t layer = 0; layer < p_.spec.n_layer; ++layer) {
      const std::string pre = block_point(layer, ".ffn.pre"), act = block_point(layer, ".ffn.act");
      if (!held_.has(pre) || !held_.has(act)) {
        remarks.push_back("--slots: an FFN of experts has no slots that can be switched off one by one");
        return;
      }
      std::vector<std::int64_t> order(stats_.at(act).mean_abs.size());
      for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int64_t>(i);
      const auto size = [&](std::int64_t i) { return stats_.at(act).mean_abs[static_cast<std::size_t>(i)]; };
      std::ranges::stable_sort(order, {}, size);
      const auto add = [&](const std::vector<std::int64_t>& slots, const std::string& which) {
        Part part = slots_part(p_.spec, p_.store.layout(), layer, slots, which);
        const auto ffn = std::ranges::find(parts_, block_point(layer, ".ffn"), &Part::name);
        parts_.insert(ffn + 1, std::move(part));
      };
      if (n_slot_ > 0) {
        add({order.end() - n_slot_, order.end()}, fmt::format("most_{}", n_slot_));
        add({order.begin(), order.begin() + n_slot_}, fmt::format("least_{}", n_slot_));
        continue;
      }
      std::erase_if(order,
                    [&](std::int64_t i) { return stats_.at(pre).most[static_cast<std::size_t>(i)] > 0; });
      if (order.empty())
        without += fmt::format("{}{}", without.empty() ? "" : ", ", layer);
      else
        add(order, "dead");
    }
    if (!without.empty()) remarks.push_back("no FFN slot is dead on these sequences in block " + without);
  }

  static std::vector<ProxyRank> ranks(const std::vector<AblatedPart>& parts) {
    constexpr double nan = std::numeric_limits<double>::quiet_NaN();
    const std::pair<std::string, std::vector<std::string>> groups[] = {
        {"sub_layers", {"attention", "ffn"}}, {"heads", {"head"}}, {"norm_gains", {"norm_gain"}}};
    std::vector<ProxyRank> all;
    for (const auto& [over, kinds] : groups)
      for (const std::string& name : proxy_names()) {
        std::vector<double> value, zero, mean;
        for (const AblatedPart& p : parts) {
          if (std::ranges::find(kinds, p.part.kind) == kinds.end()) continue;
          value.push_back(proxy(p.proxies, name).value_or(nan));
          zero.push_back(p.zero ? p.zero->delta.mean : nan);
          mean.push_back(p.mean ? p.mean->delta.mean : nan);
        }
        all.push_back({name, over, spearman(value, zero), spearman(value, mean)});
      }
    return all;
  }

  Patient& p_;
  ThreadPool& pool_;
  const AblateOptions& o_;
  std::int64_t n_slot_;
  std::vector<Part> parts_;
  HeldOut held_;
  std::vector<double> whole_, gradient_;
  std::map<std::string, ColumnStats> stats_;
  std::int64_t passes_ = 0, done_ = 0;
};

}  // namespace

const std::vector<std::string>& proxy_names() {
  static const std::vector<std::string> all = {"perturbation", "grad_norm", "grad_times_weight",
                                               "activation"};
  return all;
}

std::optional<double> proxy(const Proxies& p, std::string_view name) {
  if (name == "perturbation") return p.perturbation;
  if (name == "grad_norm") return p.grad_norm;
  return name == "activation" ? p.activation : p.grad_times_weight;
}

Ablation ablate(Patient& p, ThreadPool& pool, const AblateOptions& o) { return Ablater(p, pool, o).run(); }

}  // namespace plumb
