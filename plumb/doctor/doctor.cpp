#include "plumb/doctor/doctor.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "plumb/base/median.h"
#include "plumb/base/text.h"
#include "plumb/base/wrap.h"

namespace plumb {
namespace {

bool among(std::string_view list, std::string_view name) {
  const auto all = names_in(list);
  return std::ranges::find(all, name) != all.end();
}

bool is_recorded(const Evidence& e, const std::string& what) {
  return e.has(what) || !e.series(what).empty() || !e.layers(what).empty();
}

const DoctorEntry& entry_of(const std::vector<DoctorEntry>& table, std::string_view name) {
  return *std::ranges::find(table, name, &DoctorEntry::name);
}

// Enough to call a run without findings healthy: it was looked into, or it was seen to learn.
std::string health_of(const Evidence& e, std::string& because) {
  const Course c = course_of(e);
  if (c.known && (c.stuck || c.diverged)) {
    because = c.stuck ? "the loss is not below that of a model that only knows how often each token comes, "
                        "and nothing that "
                        "was recorded says why"
                      : "the loss ends far above its best, and nothing that was recorded says why";
    return "undecided";
  }
  if (e.has("path_skip")) {
    because = c.known ? "it was looked into before training and seen to learn"
                      : "nothing is wrong with it before it trains";
    return "healthy";
  }
  if (c.known) {
    because = "it was seen to learn";
    return "healthy";
  }
  because = "there are too few losses to say whether it learns";
  return "undecided";
}

}  // namespace

std::vector<std::string> names_in(std::string_view list) {
  std::vector<std::string> all;
  while (!list.empty()) {
    const auto comma = list.find(", ");
    all.emplace_back(list.substr(0, comma));
    list = comma == std::string_view::npos ? std::string_view() : list.substr(comma + 2);
  }
  return all;
}

std::int64_t Finding::first_step() const {
  std::int64_t step = std::numeric_limits<std::int64_t>::max();
  for (const Clue& c : clues) step = std::min(step, c.step);
  return clues.empty() ? 0 : step;
}

std::string sublayer(std::size_t i) { return fmt::format("blocks.{}.{}", i / 2, i % 2 ? "ffn" : "attn"); }

std::optional<double> score_scale_of(const Evidence& e) {
  const auto scale = e.number("score_scale"), d = e.value("model.d_head");
  const std::string asked = e.text("model.attention.scale");
  if (!scale || !d || asked == "mup") return {};
  // T5 was made for scores that are not divided.
  return *scale * (asked == "none" && e.text("model.position") == "t5" ? 1 : std::sqrt(*d));
}

std::optional<double> drawn_over_asked(const Evidence& e) {
  const auto drawn = e.number("matrix_rms"), asked = e.value("init.std");
  const std::string scheme = e.text("init.scheme");
  if (!drawn || !asked || *asked <= 0 || (scheme != "normal" && scheme != "gpt2" && scheme != "zero_last"))
    return {};
  return *drawn / *asked;
}

double middle(std::vector<double> v) {
  std::erase_if(v, [](double x) { return !std::isfinite(x); });
  if (v.empty()) return std::nan("");
  std::ranges::sort(v);
  return middle_of(v);
}

Course course_of(const Evidence& e) {
  // A model that learns is below the unigram's loss by far more than this; a constant one differs from it by the smoothing
  // of the baseline and the marginal of the split (0.004 measured on 4,003 poems).
  constexpr double margin = 0.05, far_above = 0.5;
  // A 12-layer model leaves the unigram at about step 150 with 100 steps of warm-up; a longer one delays it.
  constexpr std::int64_t few = 300, behind_warmup = 200;
  const Series s = e.series("loss");
  Course c;
  const auto n = static_cast<std::int64_t>(s.values.size());
  if (n < 2) return c;
  const std::int64_t window = std::clamp<std::int64_t>(n / 20, 1, 50);
  const auto mean = [&](std::int64_t from) {
    double sum = 0;
    for (std::int64_t i = from; i < from + window; ++i)
      sum += s.values[static_cast<std::size_t>(i)] / static_cast<double>(window);
    return sum;
  };
  c.steps = s.steps.back() + 1, c.first = mean(0), c.last = mean(n - window), c.best = HUGE_VAL;
  for (std::int64_t i = 0; i + window <= n; ++i)
    if (const double m = mean(i); m < c.best) c.best = m, c.best_step = s.steps[static_cast<std::size_t>(i)];
  const auto warmup = static_cast<std::int64_t>(e.value("train.warmup").value_or(0));
  c.known = c.steps >= std::max(few, warmup + behind_warmup);
  const auto unigram = e.number("baseline_unigram");
  c.stuck = unigram ? c.last > *unigram - margin : c.last > c.first - margin;
  c.diverged = !(c.last <= c.best + far_above);
  return c;
}

Diagnosis diagnose(const Trace& trace, const std::vector<DoctorEntry>& table) {
  const Evidence e(trace);
  Diagnosis d;
  for (const DoctorEntry& cause : table) {
    for (const std::string& need : names_in(cause.needs))
      if (!is_recorded(e, need) && std::ranges::find(d.missing, need) == d.missing.end())
        d.missing.push_back(need);
    auto finding = cause.look(e);
    if (!finding) continue;
    finding->cause = cause.name;
    d.findings.push_back(std::move(*finding));
  }
  // What a deeper cause explains is not a cause.
  const std::vector<Finding> all = d.findings;
  std::erase_if(d.findings, [&](const Finding& f) {
    return std::ranges::any_of(all, [&](const Finding& deeper) {
      return deeper.cause != f.cause && among(entry_of(table, deeper.cause).explains, f.cause);
    });
  });
  std::ranges::stable_sort(d.findings, std::greater(), &Finding::confidence);
  d.verdict = d.findings.empty() ? health_of(e, d.because) : "sick";
  std::ranges::sort(d.missing);
  return d;
}

Json diagnosis_json(const Diagnosis& d, const std::vector<DoctorEntry>& table) {
  Json j = Json::object(), findings = Json::array();
  for (const Finding& f : d.findings) {
    Json one = Json::object(), clues = Json::array(), patch = Json::object();
    one["cause"] = f.cause;
    one["where"] = f.where;
    one["confidence"] = f.confidence;
    one["first_step"] = f.first_step();
    for (const Clue& c : f.clues) {
      Json clue = Json::object();
      clue["metric"] = c.metric, clue["value"] = c.value, clue["threshold"] = c.threshold,
      clue["step"] = c.step;
      clues.push_back(clue);
    }
    for (const auto& [key, value] : f.patch) patch[key] = value;
    one["evidence"] = clues;
    one["why"] = f.why;
    one["fix"] = std::string(entry_of(table, f.cause).mend);
    one["patch"] = patch;
    one["confirmed"] = f.confirmed ? Json(*f.confirmed) : Json();
    if (!f.confirmation.empty()) one["confirmation"] = f.confirmation;
    findings.push_back(one);
  }
  j["verdict"] = d.verdict;
  j["findings"] = findings;
  j["missing"] = Json(d.missing);
  j["because"] = d.because;
  return j;
}

std::string diagnosis_text(const Diagnosis& d, const std::vector<DoctorEntry>& table, int width) {
  const auto columns = static_cast<std::size_t>(width);
  std::string out = d.verdict + (d.because.empty() ? "" : ": " + d.because) + "\n";
  for (std::size_t i = 0; i < d.findings.size(); ++i) {
    const Finding& f = d.findings[i];
    const DoctorEntry& cause = entry_of(table, f.cause);
    out += "\n" +
           wrapped(fmt::format("{}. {}: {}{} ({:.0f} %)", i + 1, f.cause, cause.what,
                               f.where.empty() ? "" : ", at " + f.where, 100 * f.confidence),
                   columns, 0) +
           "\n";
    out += wrapped_behind("   ", f.why, columns) + "\n";
    for (const Clue& c : f.clues)
      out += fmt::format("   {} = {:.4g}, held against {:.4g} (step {})\n", c.metric, c.value, c.threshold,
                         c.step);
    out += wrapped_behind("   ", "Mend: " + std::string(cause.mend), columns) + "\n";
    if (!f.confirmation.empty()) {
      const char* how = !f.confirmed ? "Not tried" : *f.confirmed ? "Confirmed" : "Not confirmed";
      out += wrapped_behind("   ", fmt::format("{}: {}", how, f.confirmation), columns) + "\n";
    }
    for (const auto& [key, value] : f.patch)
      out += fmt::format("   --set {}={}\n", key, value.is_string() ? value.as_string("") : value.dump());
  }
  if (d.verdict != "healthy" && !d.missing.empty())
    out += "\n" + wrapped("Not recorded, so not looked at: " + join(d.missing) + ".", columns, 0) + "\n";
  if (!d.findings.empty()) out += "\n`plumb explain " + d.findings.front().cause + "` says more of it.\n";
  return out;
}

}  // namespace plumb
