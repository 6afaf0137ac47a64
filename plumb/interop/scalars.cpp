#include "plumb/interop/scalars.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <limits>
#include <map>

namespace plumb {
namespace {

struct Alias {
  std::string_view metric, logged;  // `logged` in lower case, words joined by spaces
};

// What Hugging Face's Trainer, Lightning, nanoGPT, fairseq, Megatron and hand-written loops call these.
constexpr std::array aliases{
    Alias{"loss", "loss"},
    Alias{"loss", "train loss"},
    Alias{"loss", "training loss"},
    Alias{"loss", "loss train"},
    Alias{"loss", "train loss step"},
    Alias{"loss", "lm loss"},
    Alias{"val_loss", "val loss"},
    Alias{"val_loss", "valid loss"},
    Alias{"val_loss", "validation loss"},
    Alias{"val_loss", "eval loss"},
    Alias{"val_loss", "loss val"},
    Alias{"val_loss", "loss valid"},
    Alias{"val_loss", "loss validation"},
    Alias{"val_loss", "loss eval"},
    Alias{"lr", "lr"},
    Alias{"lr", "learning rate"},
    Alias{"lr", "train lr"},
    Alias{"lr", "train learning rate"},
    Alias{"lr", "lr adamw"},
    Alias{"grad_norm", "grad norm"},
    Alias{"grad_norm", "gradient norm"},
    Alias{"grad_norm", "train grad norm"},
    Alias{"grad_norm", "gnorm"},
    Alias{"tokens", "tokens"},
    Alias{"tokens", "num tokens"},
    Alias{"tokens", "train tokens"},
    Alias{"step", "step"},
    Alias{"step", "steps"},
    Alias{"step", "global step"},
    Alias{"step", "train global step"},
    Alias{"step", "iter"},
    Alias{"step", "iteration"},
    Alias{"step", "num updates"},
};

// Lower case, one space between words: "Loss/Train" -> "loss train", "global_step" -> "global step".
std::string words_of(std::string_view name) {
  std::string out;
  for (const char c : name) {
    const bool joint = std::string_view("/._- \t").find(c) != std::string_view::npos;
    if (!joint)
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    else if (!out.empty() && out.back() != ' ')
      out += ' ';
  }
  while (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

}  // namespace

std::string metric_of(std::string_view logged) {
  const std::string words = words_of(logged);
  for (const Alias& a : aliases)
    if (a.logged == words) return std::string(a.metric);
  return std::string(logged);
}

std::size_t ScalarLog::id(std::string_view name) {
  const auto [found, fresh] = ids_.try_emplace(std::string(name), names_.size());
  if (fresh) names_.emplace_back(name);
  return found->second;
}

void ScalarLog::add(std::int64_t step, std::size_t id, double value) {
  if (step < 0)
    ++before_zero_;
  else
    scalars_.push_back({step, id, value});
}

void ScalarLog::warn(const std::string& what) {
  if (!what.empty()) warning_ += (warning_.empty() ? "" : "; ") + what;
}

Trace ScalarLog::trace(const std::string& producer) const {
  ScalarLog told;  // collects what else there is to say
  told.warn(warning_);
  if (before_zero_ > 0) told.warn(fmt::format("{} numbers of steps below 0 are left out", before_zero_));

  // The name that each metric is taken from: the first of the aliases that was logged.
  std::vector<std::string> metric = names_;
  std::map<std::string, std::size_t> taken;
  for (const Alias& a : aliases)
    for (std::size_t i = 0; i < names_.size(); ++i) {
      if (words_of(names_[i]) != a.logged) continue;
      const auto [found, fresh] = taken.try_emplace(std::string(a.metric), i);
      metric[i] = fresh ? std::string(a.metric) : names_[i] + " (logged)";
      if (!fresh)
        told.warn(fmt::format("'{}' is kept as '{}': the {} is '{}'", names_[i], metric[i], a.metric,
                              names_[found->second]));
    }

  // Where the loss goes back, the new row begins with the first number of that step.
  const auto loss = taken.find("loss");
  std::vector<bool> cut(scalars_.size(), false);
  std::int64_t last = -1;
  for (std::size_t i = 0; i < scalars_.size(); ++i) {
    if (loss == taken.end() || scalars_[i].id != loss->second) continue;
    if (scalars_[i].step < last) {
      std::size_t first = i;
      while (first > 0 && scalars_[first - 1].step == scalars_[i].step) --first;
      cut[first] = true;
    }
    last = scalars_[i].step;
  }
  std::vector<Scalar> kept;
  std::size_t dropped = 0;
  std::int64_t limit = std::numeric_limits<std::int64_t>::max();
  for (std::size_t i = scalars_.size(); i-- > 0;) {
    if (scalars_[i].step < limit)
      kept.push_back(scalars_[i]);
    else
      ++dropped;
    if (cut[i]) limit = std::min(limit, scalars_[i].step);
  }
  std::ranges::reverse(kept);
  if (dropped > 0)
    told.warn(fmt::format(
        "the steps go back to {}: the run went on from there, and {} older numbers from that step on "
        "are left out",
        limit, dropped));

  Trace t;
  t.header.producer = producer;
  t.warning = told.warning_;
  std::ranges::stable_sort(kept, {}, &Scalar::step);
  std::vector<std::size_t> place(names_.size());
  for (std::size_t i = 0; i < kept.size();) {
    StepRow row;
    row.step = kept[i].step;
    for (; i < kept.size() && kept[i].step == row.step; ++i) {
      const std::size_t id = kept[i].id;
      // `place` may hold an older row's: it counts only where this row has that very name there.
      if (place[id] < row.values.size() && row.values[place[id]].first == metric[id]) {
        row.values[place[id]].second = kept[i].value;
        continue;
      }
      place[id] = row.values.size();
      row.values.emplace_back(metric[id], kept[i].value);
    }
    t.steps.push_back(std::move(row));
  }
  return t;
}

}  // namespace plumb
