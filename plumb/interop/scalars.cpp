#include "plumb/interop/scalars.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>
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
    Alias{"val_loss", "test loss"},
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

Trace trace_of_scalars(const std::vector<Scalar>& scalars, const std::string& producer) {
  Trace trace;
  trace.header.producer = producer;
  std::map<std::int64_t, StepRow> rows;
  std::map<std::string, std::int64_t> last;  // step of each name
  std::int64_t dropped = 0, from = 0;
  for (const Scalar& s : scalars) {
    const std::string metric = metric_of(s.name);
    if (const auto seen = last.find(metric);
        metric == "loss" && seen != last.end() && s.step < seen->second) {
      const auto first = rows.lower_bound(s.step);
      dropped += std::distance(first, rows.end());
      from = s.step;
      rows.erase(first, rows.end());
    }
    last[metric] = s.step;
    StepRow& row = rows[s.step];
    row.step = s.step;
    const auto known = std::ranges::find(row.values, metric, [](const auto& v) { return v.first; });
    if (known == row.values.end())
      row.values.emplace_back(metric, s.value);
    else
      known->second = s.value;
  }
  for (auto& [step, row] : rows) trace.steps.push_back(std::move(row));
  if (dropped > 0)
    trace.warning = fmt::format(
        "the steps go back to {}: the run went on from there, and {} older rows from that step on are left "
        "out",
        from, dropped);
  return trace;
}

}  // namespace plumb
