#include "plumb/study/audit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <future>
#include <optional>

#include "plumb/base/error.h"
#include "plumb/doctor/evidence.h"
#include "plumb/study/pilot.h"
#include "plumb/version.h"

namespace plumb {
namespace {

// What a diagnosis may read of a config: not what was made wrong on purpose.
Json config_without_faults(const Config& resolved) {
  Config plain = resolved;
  plain.fault = {};
  return config_to_json(plain);
}

// A norm on the identity path, as it was measured: then a rate that others bear may be too high.
bool path_is_normed(const Trace& t) {
  const auto most = [&](std::string_view fact) {
    double m = 0;
    for (const double v : Evidence(t).numbers(fact)) m = v > m ? v : m;
    return m;
  };
  return std::max(most("path_normed_sum"), most("path_normed_skip")) > 0.5;
}

}  // namespace

double rms(View<const float> v) {
  double squares = 0;
  for (std::int64_t i = 0; i < v.rows; ++i)
    for (std::int64_t j = 0; j < v.cols; ++j)
      squares += static_cast<double>(v.row(i)[j]) * static_cast<double>(v.row(i)[j]);
  return v.size() > 0 ? std::sqrt(squares / static_cast<double>(v.size())) : 0;
}

double rms(const Grid<float>& g) { return rms(View<const float>{g.data.data(), g.rows, g.cols, g.cols}); }

std::string block_point(std::int64_t layer, std::string_view end) {
  return fmt::format("blocks.{}{}", layer, end);
}

Trace audit(const Config& config, const Components& components, const Corpus& corpus, const AuditOptions& o) {
  const auto stage = [&](std::string_view what) {
    if (o.interrupted && o.interrupted()) throw Error("interrupted; nothing was written", 130);
    if (o.progress) o.progress(what);
  };
  stage("building the model");
  Corpus text = corpus;
  text.floor = {}, text.entropy_rate = {};  // exact and slow, and nothing here asks for them
  Patient p(config, components, text);
  Trace t;
  t.header = {fmt::format("plumb {} audit", kVersion), config_without_faults(p.config)};
  FactSheet facts(t);
  facts.add("n_layer", p.spec.n_layer);
  const Baselines& b = p.feed.baselines();
  facts.add("baseline_uniform", b.uniform);
  facts.add("baseline_unigram", b.unigram);
  facts.add("baseline_bigram", b.bigram);

  stage("one step, forward and back");
  const Seen base = p.pass_back();
  StepRow row;
  row.values = {{"loss", base.loss.cross_entropy / p.faults.loss_factor}, {"grad_norm", base.grad_norm}};
  p.probe(row);
  t.steps.push_back(row);
  if (!std::isfinite(base.loss.loss) || !std::isfinite(base.grad_norm))
    facts.add("non_finite", fmt::format("the first tensor that is not finite is {}", p.first_non_finite()));
  audit_update(p, facts);  // reads the gradients of that pass
  audit_weights(p, facts);
  stage("the residual stream");
  audit_paths(p, facts);
  std::optional<Pilot> pilot;
  std::future<PilotCourse> piloted;
  if (o.ramp && path_is_normed(t)) {
    stage("a short training at the peak rate, beside the rest: a norm stands on the residual path");
    pilot.emplace(p);
    piloted = std::async(std::launch::async, [&] { return pilot->run(o.interrupted); });
  }
  stage("the norms");
  audit_norms(p, facts);
  stage("attention and positions");
  audit_attention(p, facts);
  audit_positions(p, facts);
  stage("the head and the loss");
  audit_ends(p, base, facts);
  stage("the data");
  audit_data(p, facts);
  if (o.ramp) {
    stage("a short training with a growing learning rate");
    audit_ramp(p, facts, o.interrupted);
  }
  if (o.resume) {
    stage("a run that is interrupted and resumed");
    audit_resume(p, facts, o.interrupted);
  }
  if (piloted.valid()) {
    stage("waiting for the short training");
    const PilotCourse c = piloted.get();
    facts.add("pilot_step", c.step);
    facts.add("pilot_loss", c.loss);
    facts.add("pilot_kl", c.kl);
  }
  return t;
}

}  // namespace plumb
