#include "plumb/study/scorecard.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "plumb/base/error.h"
#include "plumb/base/rng.h"
#include "plumb/base/text.h"
#include "plumb/model/decoder.h"
#include "plumb/study/audit.h"
#include "plumb/study/side_by_side.h"

namespace plumb {
namespace {

// Choices of which each case draws one; the first is the config's own. Kinds that are what a cause is named for (norms that
// see other positions, no residual, unscaled scores) are not among them.
const std::vector<std::vector<std::vector<std::string>>>& urn() {
  using Choices = std::vector<std::vector<std::string>>;
  static const std::vector<Choices> all{
      {{"model.n_layer=2"}, {"model.n_layer=3"}, {"model.n_layer=4"}, {"model.n_layer=8"}},
      {{"model.d_model=32", "model.d_ff=64"},
       {"model.d_model=64", "model.d_ff=128"},
       {"model.d_model=48", "model.d_ff=100"}},
      {{"model.block_size=32"}, {"model.block_size=16"}, {"model.block_size=64"}},
      {{}, {"model.norm=rms"}, {"model.norm=rms", "model.norm_gain=plus_one"}},
      {{}, {"model.placement=parallel"}, {"model.placement=sandwich"}, {"model.placement=post"}},
      {{},
       {"model.position=rope"},
       {"model.position=sinusoidal"},
       {"model.position=alibi"},
       {"model.position=t5"}},
      {{}, {"model.ffn.kind=swiglu"}, {"model.ffn.kind=relu"}, {"model.ffn.kind=moe"}},
      {{}, {"init.scheme=normal"}, {"init.scheme=lecun"}, {"init.scheme=xavier"}, {"init.scheme=zero_last"}},
      {{}, {"model.residual=depth_scale"}, {"model.residual=layer_scale"}, {"model.residual=rezero"}},
      {{}, {"model.n_kv_head=2"}, {"model.n_kv_head=1"}},
      {{}, {"model.tied_embeddings=false"}},
      {{}, {"model.attention.qk_norm=rms"}},
      {{}, {"train.dropout=0.2"}, {"train.dropout=0.5"}},
      {{}, {"train.accumulate=2"}},
      {{}, {"train.warmup=200"}},
      {{"data.vocab_size=300"}, {"data.vocab_size=40"}, {"data.vocab_size=1200"}},
  };
  return all;
}

class Draw {
 public:
  Draw(const ScoreOptions& o, std::string_view of, int number)
      : stream_(stream(fnv1a(fmt::format("{}/{}/{}", o.salt, of, number)), "scorecard")) {}
  std::uint64_t below(std::uint64_t n) { return stream_.below(n, 0, 0, at_++); }

 private:
  Stream stream_;
  std::uint64_t at_ = 0;
};

bool can_be(const ScoreCase& c, const Components& components) {
  try {
    const Config config = config_for(c);
    const DecoderSpec spec = spec_of(config, config.data.vocab_size, components);
    check_spec(spec, components);
    decoder_layout<float>(spec, components);  // says where a fault has nothing to be wrong about
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Half of the choices stay as the config has them, so that a case is a model and not a list of oddities.
ScoreCase drawn(const ScoreOptions& o, const FaultEntry* fault, int number, const Components& components) {
  Draw draw(o, fault ? fault->name : "healthy", number);
  for (int attempt = 0; attempt < 200; ++attempt) {
    ScoreCase c;
    for (const auto& choices : urn()) {
      const bool own = draw.below(2) == 0;
      const auto& chosen = own ? choices.front() : choices[draw.below(choices.size())];
      c.set.insert(c.set.end(), chosen.begin(), chosen.end());
    }
    c.set.push_back(fmt::format("train.seed={}", draw.below(1000)));
    if (fault) {
      c.fault = fault->name;
      if (c.fault == "kv_head_mapping") c.set.emplace_back("model.n_kv_head=2");
      if (c.fault == "loss_normaliser") c.set.emplace_back("train.accumulate=2");
      if (!fault->strength.empty()) {
        std::vector<double> strengths;
        for (const double s : {0.5, 1.0, 2.0})
          if (s <= fault->high && s >= fault->low) strengths.push_back(s);
        if (!strengths.empty()) c.strength = strengths[draw.below(strengths.size())];
      }
    }
    if (can_be(c, components)) return c;
  }
  fail("[scorecard] no model was drawn that {} can be in", fault ? fault->name : "nothing");
}

}  // namespace

Config config_for(const ScoreCase& c) {
  Config config;
  for (const char* s : {"train.steps=600", "train.batch_size=8", "train.threads=1"}) set_value(config, s);
  for (const std::string& s : c.set) set_value(config, s);
  if (!c.fault.empty()) {
    config.fault.inject = {c.fault};
    config.fault.strength = c.strength;
  }
  return config;
}

std::vector<std::string> accepted_causes(std::string_view fault) {
  if (fault == "non_finite") return {};                                     // begins after some steps
  if (fault == "head_zero") return {"head_zero", "tied_embedding_broken"};  // it unties what the config ties
  return {std::string(fault)};
}

bool ScoreCase::first() const {
  const auto may = accepted_causes(fault);
  return !named.empty() && std::ranges::find(may, named.front()) != may.end();
}

bool ScoreCase::in_three() const {
  const auto may = accepted_causes(fault);
  return std::any_of(named.begin(),
                     named.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(3, named.size())),
                     [&](const std::string& n) { return std::ranges::find(may, n) != may.end(); });
}

std::vector<ScoreCase> score(const ScoreOptions& o, const Components& components, const Corpus& corpus) {
  std::vector<ScoreCase> all;
  for (const FaultEntry& f : components.fault)
    if (!accepted_causes(f.name).empty())
      for (int i = 0; i < o.per_fault; ++i) all.push_back(drawn(o, &f, i, components));
  for (int i = 0; i < o.healthy; ++i) all.push_back(drawn(o, nullptr, i, components));
  const auto causes = doctor_table();
  side_by_side(all.size(), o.at_a_time, o.progress, [&](std::size_t i) {
    if (o.interrupted && o.interrupted()) throw Error("interrupted; nothing was written", 130);
    const Diagnosis d =
        diagnose(audit(config_for(all[i]), components, corpus, {.interrupted = o.interrupted}), causes);
    all[i].verdict = d.verdict;
    for (const Finding& f : d.findings) all[i].named.push_back(f.cause);
  });
  return all;
}

std::pair<double, double> wilson(std::int64_t k, std::int64_t n) {
  constexpr double z = 1.959963984540054;
  if (n == 0) return {0, 1};
  const auto N = static_cast<double>(n);
  const double p = static_cast<double>(k) / N, mid = p + z * z / (2 * N),
               half = z * std::sqrt(p * (1 - p) / N + z * z / (4 * N * N)), all = 1 + z * z / N;
  return {std::max(0.0, (mid - half) / all), std::min(1.0, (mid + half) / all)};
}

namespace {

struct Tally {
  std::int64_t n = 0, first = 0, three = 0;
  void add(const ScoreCase& c) { ++n, first += c.first(), three += c.in_three(); }
};

struct Score {
  Tally faults, healthy;  // of healthy: first counts false alarms
  std::int64_t undecided = 0;
  std::map<std::string, Tally> by_fault;
  std::map<double, Tally> by_strength;
  explicit Score(const std::vector<ScoreCase>& all) {
    for (const ScoreCase& c : all) {
      if (c.fault.empty()) {
        ++healthy.n, healthy.first += !c.named.empty(), undecided += c.verdict == "undecided";
        continue;
      }
      faults.add(c), by_fault[c.fault].add(c), by_strength[c.strength].add(c);
    }
  }
};

}  // namespace

Json rate_json(std::int64_t k, std::int64_t n) {
  Json j = Json::object();
  const auto [low, high] = wilson(k, n);
  j["k"] = k, j["n"] = n, j["rate"] = n ? Json(static_cast<double>(k) / static_cast<double>(n)) : Json();
  j["ci95"] = Json(std::vector<double>{low, high});
  return j;
}

std::string rate_text(std::int64_t k, std::int64_t n) {
  const auto [low, high] = wilson(k, n);
  return fmt::format("{} of {} ({:.1f} %; 95 %: {:.1f} to {:.1f})", k, n,
                     n ? 100.0 * static_cast<double>(k) / static_cast<double>(n) : 0.0, 100 * low,
                     100 * high);
}

Json score_json(const std::vector<ScoreCase>& all, const ScoreOptions& o) {
  const Score s(all);
  Json j = Json::object(), missed = Json::array();
  j["salt"] = o.salt;
  j["cause_at_1"] = rate_json(s.faults.first, s.faults.n);
  j["cause_at_3"] = rate_json(s.faults.three, s.faults.n);
  j["false_alarms"] = rate_json(s.healthy.first, s.healthy.n);
  j["undecided"] = rate_json(s.undecided, s.healthy.n);
  j["random_guess_at_1"] = 1.0 / static_cast<double>(doctor_table().size());
  for (const ScoreCase& c : all) {
    if (c.fault.empty() ? c.named.empty() : c.first()) continue;
    Json one = Json::object();
    one["fault"] = c.fault, one["strength"] = c.strength, one["set"] = Json(c.set),
    one["named"] = Json(c.named);
    missed.push_back(one);
  }
  j["wrong"] = missed;
  return j;
}

std::string score_markdown(const std::vector<ScoreCase>& all, const ScoreOptions& o) {
  const Score s(all);
  std::string out = fmt::format(
      "# Scorecard of the diagnosis, before training\n\nWritten by `./run doctor --self-test --salt {} "
      "--cases {} --healthy {}`. Faults of "
      "docs/faults.md are put into models drawn at random (2 to 8 layers, `d_model` 32 to 64, norms, "
      "placements, positions, inits, "
      "residual rules, heads), and healthy ones are drawn from the same urn. Each is looked into before it "
      "trains. Another salt draws "
      "other cases.\n\n| | |\n| --- | --- |\n| right at first (cause@1) | {} |\n| among the first three "
      "(cause@3) | {} |\n| false alarms, of "
      "healthy models | {} |\n| undecided, of healthy models | {} |\n| a doctor that guesses, at first | "
      "{:.1f} % |\n\n",
      o.salt, o.per_fault, s.healthy.n, rate_text(s.faults.first, s.faults.n),
      rate_text(s.faults.three, s.faults.n), rate_text(s.healthy.first, s.healthy.n),
      rate_text(s.undecided, s.healthy.n), 100.0 / static_cast<double>(doctor_table().size()));
  out += "| strength | cases | cause@1 | cause@3 |\n| --- | --- | --- | --- |\n";
  for (const auto& [strength, t] : s.by_strength)
    out += fmt::format("| {} | {} | {} | {} |\n", strength, t.n, t.first, t.three);
  out += "\n| fault | cases | cause@1 | cause@3 |\n| --- | --- | --- | --- |\n";
  for (const auto& [fault, t] : s.by_fault)
    out += fmt::format("| `{}` | {} | {} | {} |\n", fault, t.n, t.first, t.three);
  out += "\nWhat was answered wrongly:\n\n";
  for (const ScoreCase& c : all)
    if (c.fault.empty() ? !c.named.empty() : !c.first())
      out += fmt::format("- {} (strength {}), {}: {}\n", c.fault.empty() ? "healthy" : c.fault, c.strength,
                         join(c.set, " "), c.named.empty() ? c.verdict : join(c.named));
  return out;
}

}  // namespace plumb
