#include "plumb/study/trained_score.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plumb/base/error.h"
#include "plumb/base/rng.h"
#include "plumb/base/text.h"
#include "plumb/study/audit.h"
#include "plumb/study/confirm.h"
#include "plumb/study/observe.h"
#include "plumb/study/scratch.h"
#include "plumb/study/short_run.h"
#include "plumb/study/side_by_side.h"
#include "plumb/train/trainer.h"

namespace plumb {
namespace {

Trace trained(const Config& config, const Components& components, const Corpus& corpus,
              const std::function<bool()>& interrupted) {
  const Scratch dir;
  std::optional<ProbeSet> probes;
  TrainEvents events;
  events.observe = [&](const DecoderSpec& s) {
    probes.emplace(s);
    return observers_of(*probes);
  };
  events.interrupted = interrupted;
  const TrainResult r = train({.config = config, .out = dir.path / "run"}, components, corpus, events);
  if (r.status == "interrupted") throw Error("interrupted; nothing was written", 130);
  return read_trace(dir.path / "run" / "trace.jsonl");
}

std::vector<double> losses_of(const Trace& t) { return Evidence(t).series("loss").values; }

std::vector<std::string> named_in(const Trace& t, const std::vector<Cause>& causes) {
  std::vector<std::string> names;
  for (const Finding& f : diagnose(t, causes).findings) names.push_back(f.cause);
  return names;
}

bool right_at_first(const std::vector<std::string>& named, std::string_view fault) {
  const auto may = accepted_causes(fault);
  return !named.empty() && std::ranges::find(may, named.front()) != may.end();
}

// The trace as it was after `steps` updates.
Trace until(const Trace& whole, std::int64_t steps) {
  Trace t;
  t.header = whole.header;
  for (const FactRow& f : whole.facts)
    if (f.name != "non_finite") t.facts.push_back(f);  // it is the last row of all
  for (const StepRow& row : whole.steps)
    if (row.step < steps) t.steps.push_back(row);
  return t;
}

std::optional<std::int64_t> first_named(const Trace& whole, std::string_view fault,
                                        const std::vector<Cause>& causes) {
  constexpr std::int64_t every = 25;
  const std::int64_t all = whole.steps.empty() ? 0 : whole.steps.back().step + 1;
  for (std::int64_t steps = 1; steps < all; steps = steps == 1 ? every : steps + every)
    if (right_at_first(named_in(until(whole, steps), causes), fault)) return steps;
  if (right_at_first(named_in(whole, causes), fault)) return all;
  return {};
}

// A mend of another cause: a setting that people change when a run is worse than it should be.
Config with_other_mend(const Config& sick, std::string_view key) {
  const std::vector<std::string> mends{"model.attention.qk_norm=rms", "train.weight_decay=0",
                                       "train.beta2=0.99", "init.scheme=xavier", "model.norm=rms"};
  Config c = sick;
  set_value(c, mends[fnv1a(key) % mends.size()]);
  return c;
}

bool beats(const std::vector<double>& mended, const std::vector<double>& as_is,
           const std::vector<double>& generic) {
  return paired(mended, as_is).high < 0 && paired(mended, generic).high < 0;
}

void confirm_case(TrainedCase& t, const Config& sick, const Config& healthy, const TrainedOptions& o,
                  const Components& components, const Corpus& corpus) {
  const auto losses = [&](const Config& c) {
    return short_losses(c, o.confirm_steps, 3, components, corpus, o.interrupted);
  };
  const auto as_is = losses(sick), mended = losses(healthy);
  t.hurts = paired(mended, as_is).high < 0;
  if (!t.hurts) return;
  const auto generic = losses(generic_mend(shortened_to(sick, o.confirm_steps)));
  Config placebo = sick;  // another draw of the same run
  placebo.train.seed += 5000;
  t.mend = beats(mended, as_is, generic);
  t.placebo = beats(losses(placebo), as_is, generic);
  try {
    t.other = beats(losses(with_other_mend(sick, join(t.before.set))), as_is, generic);
  } catch (const Error&) {
    if (o.interrupted && o.interrupted()) throw;  // otherwise: it does not fit this model
  }
}

}  // namespace

std::optional<std::int64_t> leaves_band(const std::vector<double>& loss, const std::vector<double>& twin,
                                        const std::vector<double>& other, std::size_t window) {
  constexpr double times = 3, least = 0.02;
  const std::size_t n = std::min({loss.size(), twin.size(), other.size()});
  const auto smooth = [&](const std::vector<double>& v, std::size_t at) {
    double sum = 0;
    for (std::size_t i = at; i < at + window; ++i) sum += v[i] / static_cast<double>(window);
    return sum;
  };
  std::vector<double> apart;
  for (std::size_t i = 0; i + window <= std::min(twin.size(), other.size()); ++i)
    apart.push_back(std::abs(smooth(twin, i) - smooth(other, i)));
  const double band = times * std::max(least, middle(apart));
  std::size_t outside = 0;
  for (std::size_t i = 0; i + window <= n; ++i) {
    outside = std::abs(smooth(loss, i) - smooth(twin, i)) > band ? outside + 1 : 0;
    if (outside == window) return static_cast<std::int64_t>(i + window);
  }
  // A run that broke has left it where it broke.
  if (loss.size() < twin.size()) return static_cast<std::int64_t>(loss.size());
  return {};
}

std::vector<TrainedCase> score_trained(const std::vector<ScoreCase>& all, const TrainedOptions& o,
                                       const Components& components, const Corpus& corpus) {
  std::vector<TrainedCase> cases;
  for (const ScoreCase& c : all)
    if (!c.fault.empty())
      cases.push_back({.before = c, .named_at = {}, .leaves_at = {}, .mend = {}, .placebo = {}, .other = {}});
  const auto causes = doctor_table();
  side_by_side(cases.size(), o.at_a_time, o.progress, [&](std::size_t i) {
    TrainedCase& t = cases[i];
    Config sick = config_for(t.before);
    sick.train.steps = o.steps;
    Config healthy = sick, other = sick;
    healthy.fault = other.fault = {};
    other.train.seed += 1;
    const Trace trace = trained(sick, components, corpus, o.interrupted);
    const auto twin = losses_of(trained(healthy, components, corpus, o.interrupted));
    t.leaves_at =
        leaves_band(losses_of(trace), twin, losses_of(trained(other, components, corpus, o.interrupted)));
    t.trace = named_in(trace, causes);
    t.named_at = first_named(trace, t.before.fault, causes);
    Trace both = audit(sick, components, corpus, {.interrupted = o.interrupted});
    both.steps = trace.steps;
    both.facts.insert(both.facts.begin(), trace.facts.begin(), trace.facts.end());
    t.run = named_in(both, causes);
    if (t.before.first()) confirm_case(t, sick, healthy, o, components, corpus);
  });
  return cases;
}

namespace {

struct TrainedTally {
  std::int64_t n = 0, trace = 0, run = 0, earlier = 0, both = 0, right = 0, hurt = 0, mend = 0, placebo = 0,
               other = 0, tried_other = 0;
  explicit TrainedTally(const std::vector<TrainedCase>& all) {
    for (const TrainedCase& t : all) {
      ++n, trace += right_at_first(t.trace, t.before.fault), run += right_at_first(t.run, t.before.fault);
      if (t.leaves_at) ++both, earlier += t.before.first() || (t.named_at && *t.named_at <= *t.leaves_at);
      if (!t.before.first()) continue;
      ++right, hurt += t.hurts, mend += t.mend == true, placebo += t.placebo == true,
          other += t.other == true;
      tried_other += t.other.has_value();
    }
  }
};

std::string step_text(const std::optional<std::int64_t>& at) { return at ? fmt::format("{}", *at) : "–"; }
std::string yes_text(const std::optional<bool>& v) { return !v ? "–" : *v ? "yes" : "no"; }

}  // namespace

Json trained_json(const std::vector<TrainedCase>& all) {
  const TrainedTally s(all);
  Json j = Json::object(), cases = Json::array();
  j["trace_alone_at_1"] = rate_json(s.trace, s.n), j["run_at_1"] = rate_json(s.run, s.n);
  j["no_later_than_the_loss"] = rate_json(s.earlier, s.both);
  j["right_before"] = s.right, j["of_them_hurt"] = s.hurt;
  j["mend_confirmed"] = rate_json(s.mend, s.hurt), j["placebo_confirmed"] = rate_json(s.placebo, s.hurt);
  j["other_mend_confirmed"] = rate_json(s.other, s.tried_other);
  const auto step = [](const std::optional<std::int64_t>& at) { return at ? Json(*at) : Json(); };
  const auto yes = [](const std::optional<bool>& v) { return v ? Json(*v) : Json(); };
  for (const TrainedCase& t : all) {
    Json one = Json::object();
    one["fault"] = t.before.fault, one["strength"] = t.before.strength, one["set"] = Json(t.before.set);
    one["before"] = Json(t.before.named), one["trace"] = Json(t.trace), one["run"] = Json(t.run);
    one["named_at"] = step(t.named_at), one["leaves_at"] = step(t.leaves_at), one["hurts"] = t.hurts;
    one["mend"] = yes(t.mend), one["placebo"] = yes(t.placebo), one["other"] = yes(t.other);
    cases.push_back(one);
  }
  j["cases"] = cases;
  return j;
}

std::string trained_markdown(const std::vector<TrainedCase>& all, const TrainedOptions& o) {
  const TrainedTally s(all);
  std::string out = fmt::format(
      "## While training\n\nThe first case of each fault, trained for {} steps beside its healthy twin. The "
      "trace alone: what its rows "
      "and facts say without the model. The loss leaves its band: the mean of 20 losses is further from the "
      "twin's than three times "
      "what two healthy runs are apart, for 20 steps. Confirmed: as `--confirm` does it, {} steps, three "
      "seeds, by taking the fault "
      "away; placebo: another seed in place of a mend; another: a mend of something else (qk-norm, decay, "
      "beta2, init, norm). "
      "Only faults that make the loss higher in so few steps can be confirmed by the loss.\n\n| | |\n| --- | "
      "--- |\n"
      "| right at first, the trace alone | {} |\n| right at first, the run (trace and model) | {} |\n"
      "| named before training or no later than the loss leaves its band | {} |\n| right before training; of "
      "these the loss is higher "
      "(95 %) | {}; {} |\n| confirmed by the mend | {} |\n| by the placebo | {} |\n| by another mend | {} "
      "|\n\n",
      o.steps, o.confirm_steps, rate_text(s.trace, s.n), rate_text(s.run, s.n), rate_text(s.earlier, s.both),
      s.right, s.hurt, rate_text(s.mend, s.hurt), rate_text(s.placebo, s.hurt),
      rate_text(s.other, s.tried_other));
  out +=
      "| fault | before training | trace alone | trace names it at step | loss leaves its band at step | "
      "confirmed | placebo | another "
      "|\n| --- | --- | --- | --- | --- | --- | --- | --- |\n";
  for (const TrainedCase& t : all)
    out += fmt::format("| `{}` | {} | {} | {} | {} | {} | {} | {} |\n", t.before.fault,
                       t.before.first() ? "right" : "no",
                       right_at_first(t.trace, t.before.fault) ? "right"
                       : t.trace.empty()                       ? "–"
                                                               : t.trace.front(),
                       step_text(t.named_at), step_text(t.leaves_at), yes_text(t.mend), yes_text(t.placebo),
                       yes_text(t.other));
  return out + "\n";
}

}  // namespace plumb
