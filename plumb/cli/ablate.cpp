// plumb ablate: which parts a trained model needs, and what a model learns that never had them.
#include "plumb/study/ablate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plumb/base/clock.h"
#include "plumb/base/error.h"
#include "plumb/base/wrap.h"
#include "plumb/cli/flags.h"
#include "plumb/cli/interrupt.h"
#include "plumb/cli/live.h"
#include "plumb/cli/say.h"
#include "plumb/report/terminal_plot.h"
#include "plumb/study/ladder.h"
#include "plumb/train/run_folder.h"

namespace plumb::cli {
namespace {

Json json_of(const PairedDifference& d) {
  Json j = Json::object(), ci = Json::array();
  j["mean"] = d.mean;
  if (!std::isnan(d.low)) ci.push_back(d.low), ci.push_back(d.high);
  j["ci95"] = std::isnan(d.low) ? Json() : ci;
  return j;
}

Json number(std::optional<double> v) { return v && !std::isnan(*v) ? Json(*v) : Json(); }

void add_effect(Json& j, const std::string& name, const std::optional<Effect>& e) {
  j["loss_" + name] = e ? Json(e->loss) : Json();
  j["delta_" + name] = e ? json_of(e->delta) : Json();
}

Json json_of(const AblatedPart& p) {
  Json j = Json::object(), proxies = Json::object();
  j["part"] = p.part.name, j["kind"] = p.part.kind;
  if (p.part.kind == "slots") j["slots"] = static_cast<std::int64_t>(p.part.cuts.size());
  add_effect(j, "zero", p.zero);
  add_effect(j, "mean", p.mean);
  for (const std::string& name : proxy_names()) proxies[name] = number(proxy(p.proxies, name));
  j["proxies"] = proxies;
  return j;
}

Json json_of(const ProxyRank& r) {
  Json j = Json::object();
  j["spearman"] = number(r.with_zero.rho), j["p"] = number(r.with_zero.p);
  j["spearman_mean"] = number(r.with_mean.rho), j["p_mean"] = number(r.with_mean.p);
  j["n"] = static_cast<std::int64_t>(r.with_zero.n);
  return j;
}

Json json_of(const Ladder& l) {
  Json all = Json::array();
  for (const Rung& r : l.rungs) {
    Json j = Json::object();
    j["arm"] = r.arm, j["setting"] = r.setting.empty() ? Json() : Json(r.setting);
    j["refused"] = r.refused.empty() ? Json() : Json(r.refused);
    j["losses"] = Json(r.losses), j["loss"] = number(r.mean()), j["broke"] = r.broke;
    j["delta"] = r.delta ? json_of(*r.delta) : Json();
    j["degenerate"] = r.degenerate.empty() ? Json() : Json(r.degenerate);
    all.push_back(j);
  }
  return all;
}

void add_parts(Json& j, const Ablation& a) {
  Json parts = Json::array(), ranks = Json::object();
  for (const AblatedPart& p : a.parts) parts.push_back(json_of(p));
  for (const ProxyRank& r : a.ranks) {
    if (r.over == "sub_layers")
      ranks[r.proxy] = json_of(r);
    else
      ranks[r.proxy][r.over] = json_of(r);
  }
  j["step"] = a.step, j["loss"] = a.loss, j["sequences"] = a.sequences, j["targets"] = a.targets;
  j["baselines"] = baselines_json(a.baselines);
  j["parts"] = parts, j["proxy_rank"] = ranks, j["remarks"] = Json(a.remarks);
}

// "+0.1234 ± 0.0056"; of one pair, or where a model broke, there is no interval.
std::string difference_text(const PairedDifference& d) {
  if (!std::isfinite(d.mean)) return number_text(d.mean, "{:+}");
  return std::isnan(d.low) ? fmt::format("{:+.4f}", d.mean)
                           : fmt::format("{:+.4f} ± {:.4f}", d.mean, d.high - d.mean);
}

std::string difference_text(const std::optional<Effect>& e) { return e ? difference_text(e->delta) : "–"; }

std::size_t longest_name(const std::vector<AblatedPart>& parts) {
  std::size_t most = 4;
  for (const AblatedPart& p : parts) most = std::max(most, p.part.name.size());
  return most;
}

void print_ranks(const Ablation& a, std::size_t width) {
  fmt::print("\n{}\n",
             wrapped("How well each ranks the parts as switching them off does: Spearman's rho (p) with the "
                     "change at 0, and at the mean",
                     width, 0));
  for (std::size_t i = 0; i < a.ranks.size(); ++i) {
    const ProxyRank& r = a.ranks[i];
    if (r.with_zero.n == 0) continue;
    if (i == 0 || a.ranks[i - 1].over != r.over) {
      std::string over = r.over;
      std::ranges::replace(over, '_', ' ');
      fmt::print("  {} {}\n", r.with_zero.n, over);
    }
    const auto text = [](const RankCorrelation& c) {
      return std::isnan(c.rho) ? std::string("–") : fmt::format("{:+.2f} ({:.2g})", c.rho, c.p);
    };
    fmt::print("    {:<18} {:>16}  {:>16}\n", r.proxy, text(r.with_zero), text(r.with_mean));
  }
}

void print(const Ablation& a, bool sorted, std::size_t width) {
  std::vector<AblatedPart> parts = a.parts;
  const auto size = [](const AblatedPart& p) {
    return p.zero && !std::isnan(p.zero->delta.mean) ? p.zero->delta.mean : -HUGE_VAL;
  };
  if (sorted) std::ranges::stable_sort(parts, std::ranges::greater{}, size);
  fmt::print(
      "{}\n\n",
      wrapped(fmt::format("step {}: loss {:.4f} nats on {} held-out sequences of {} targets ({}); Δ is the "
                          "change where a part is off, ± half of its 95 % interval over sequences",
                          a.step, a.loss, a.sequences, a.targets, baseline_crossed(a.loss, a.baselines, {})),
              width, 0));
  double most = 0;
  for (const AblatedPart& p : parts)
    if (std::isfinite(size(p))) most = std::max(most, size(p));
  const std::size_t name = longest_name(parts);
  const std::size_t bar = std::clamp<std::size_t>(width > name + 43 ? width - name - 43 : 0, 4, 24);
  fmt::print("{:<{}}  {:>18}  {:<{}}  {:>18}\n", "part", name, "Δ at 0", "", bar, "Δ at its mean");
  for (const AblatedPart& p : parts)
    fmt::print("{:<{}}  {:>18}  {}  {:>18}\n", p.part.name, name, difference_text(p.zero),
               terminal_bar(size(p), most, bar), difference_text(p.mean));
  if (!a.ranks.empty()) {
    fmt::print("\n{:<{}}  {:>12} {:>12} {:>12} {:>12}\n", "part", name, "perturbed", "|grad|", "|grad·w|",
               "activation");
    for (const AblatedPart& p : parts) {
      fmt::print("{:<{}} ", p.part.name, name);
      for (const std::string& which : proxy_names()) {
        const auto v = proxy(p.proxies, which);
        fmt::print(" {:>12}", v ? number_text(*v, "{:.3g}") : "–");
      }
      fmt::print("\n");
    }
    print_ranks(a, width);
  }
  for (const std::string& r : a.remarks) fmt::print("{}\n", wrapped("note: " + r, width, 2));
}

void print(const Ladder& l, std::size_t width) {
  fmt::print(
      "\n{}\n",
      wrapped(fmt::format("Trained {} steps without a part: validation loss, mean of {} seed{}; Δ to the "
                          "whole, ± half of its 95 % interval over seeds",
                          l.steps, l.seeds, l.seeds == 1 ? "" : "s"),
              width, 0));
  for (const Rung& r : l.rungs) {
    const std::string label = fmt::format("  {:<39} ", r.setting.empty() ? r.arm : r.setting);
    if (!r.refused.empty()) {
      fmt::print("{}\n", wrapped_behind(label, "refused: " + r.refused, width));
      continue;
    }
    const std::string like = r.degenerate.empty() ? "" : fmt::format("≈ {}*", r.degenerate);
    std::string line = fmt::format("{}{:>7} {:<10} {:>18}", label, number_text(r.mean(), "{:.4f}"), like,
                                   r.delta ? difference_text(*r.delta) : "");
    fmt::print("{}\n", line.erase(line.find_last_not_of(' ') + 1));
    if (r.broke > 0)
      fmt::print("{:>42}broke in {} of {} runs: the loss was not finite\n", "", r.broke, r.losses.size());
  }
  if (std::ranges::any_of(l.rungs, [](const Rung& r) { return !r.degenerate.empty(); }))
    fmt::print(
        "{}\n",
        wrapped("* within 0.02 of what that trivial model scores: a degenerate solution. That two arms "
                "agree there says nothing of the part; train longer",
                width, 2));
}

bool is_another_text(const std::filesystem::path& run, const Corpus& corpus) {
  const std::string trained_on = read_checkpoint_info(newest_checkpoint(run)).corpus_sha256;
  return !trained_on.empty() && trained_on != corpus.sha256;
}

Ladder trained(const Config& config, const Corpus& corpus, const Flags& f) {
  const double begun = now_s();
  LadderOptions o{.steps = f.train_steps, .seeds = f.seeds, .interrupted = interrupted};
  o.progress = [&](std::string_view arm, int run, int runs) {
    if (!f.quiet)
      say("training {}: run {} of {}{}\n", arm, run + 1, runs,
          run ? ", " + duration((now_s() - begun) / run * (runs - run)) + " left" : "");
  };
  return ladder(config, Components{}, corpus, o);
}

}  // namespace

int ablate_command(const Flags& f) {
  if (f.args.size() > 1) bad_input("name one run, checkpoint or config: `plumb ablate runs/…`");
  const auto [config, checkpoint] = subject_of(f.args.empty() ? "" : f.args.front(), f, "ablate");
  if (f.train_steps == 0) note_unread(f, "ablate", {"train.seed", "train.threads", "train.precision"});
  note_faults(config, f.quiet);
  listen_for_interrupts();
  const Corpus corpus = open_corpus(config.data.corpus, f.quiet);
  const std::size_t width = terminal_width();
  Json answer = Json::object();
  answer["loss"] = Json(), answer["parts"] = Json::array(), answer["proxy_rank"] = Json::object();
  answer["ladder"] = Json::array();
  if (!checkpoint.empty() || f.train_steps == 0) {
    if (checkpoint.empty() && !f.quiet)
      say("note: a config is a model that was not trained; name a run, or train without each part by "
          "--train\n");
    const Components components;
    Patient patient(config, components, corpus, checkpoint);
    if (!checkpoint.empty() && !f.quiet && is_another_text(checkpoint, corpus))
      say("note: this is not the text that the run was trained on\n");
    ThreadPool pool(static_cast<int>(patient.config.train.threads));
    Progress progress("switching parts off", f.quiet);
    const Ablation a = ablate(patient, pool,
                              {.sequences = f.sequences,
                               .draws = f.draws,
                               .slots = f.slots,
                               .progress = [&](double share) { progress.at(share); },
                               .interrupted = interrupted});
    progress.close();
    if (f.json)
      add_parts(answer, a);
    else
      print(a, f.sort, width);
    std::fflush(stdout);
  }
  if (f.train_steps > 0) {
    const Ladder l = trained(config, corpus, f);
    if (f.json) {
      answer["ladder"] = json_of(l), answer["ladder_steps"] = l.steps;
      if (!answer.find("baselines")) answer["baselines"] = baselines_json(l.baselines);
    } else {
      print(l, width);
    }
  }
  if (!config.fault.inject.empty()) answer["faults"] = Json(config.fault.inject);
  if (f.json) fmt::print("{}\n", answer.dump());
  return 0;
}

}  // namespace plumb::cli
