#include "plumb/study/bisect.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <mutex>
#include <numeric>

#include "plumb/base/error.h"
#include "plumb/base/text.h"
#include "plumb/base/threads.h"
#include "plumb/base/wrap.h"
#include "plumb/spec/from_config.h"
#include "plumb/study/scratch.h"
#include "plumb/study/short_run.h"
#include "plumb/train/trainer.h"

namespace plumb {
namespace {

using Places = std::vector<std::size_t>;  // of suspects

Places all_of(const Differing& d) {
  Places all(d.suspects.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return all;
}

Places without(const Places& all, const Places& these) {
  Places rest;
  std::ranges::set_difference(all, these, std::back_inserter(rest));
  return rest;
}

std::vector<Places> in_parts(const Places& all, std::size_t n) {
  std::vector<Places> parts;
  for (std::size_t i = 0; i < n; ++i)
    parts.emplace_back(all.begin() + static_cast<std::ptrdiff_t>(i * all.size() / n),
                       all.begin() + static_cast<std::ptrdiff_t>((i + 1) * all.size() / n));
  return parts;
}

// An effect counts from this share of what there is to explain. A learning rate near 0 makes runs so alike that effects of a
// thousandth of it have intervals without 0.
constexpr double least_share = 0.05;
constexpr double least_of_broken = 0.05;  // nats, where a run broke and there is no whole to take a share of

class Search {
 public:
  Search(const Differing& d, const BisectOptions& o, const Components& components, const ShortRuns& runs)
      : d_(d), o_(o), components_(components), runs_(runs), all_(all_of(d)) {}

  Bisection result() {
    measure({{}, all_});
    r_.good = losses({}), r_.bad = losses(all_);
    r_.difference = paired(r_.bad, r_.good);
    r_.worse = r_.difference.low > 0;
    least_ = std::isfinite(r_.difference.mean) ? least_share * r_.difference.mean : least_of_broken;
    if (r_.worse) {
      for (const Suspect& s : d_.suspects) r_.settings.push_back({s, {}, {}, "no effect seen"});
      if (all_.size() <= most_singles) one_by_one();
      const bool found = std::ranges::any_of(r_.settings, [](const Verdict& v) {
        return v.verdict != "no effect seen" && v.verdict != "helps";
      });
      if (!found) by_halves();
    }
    r_.because = said();
    r_.runs = static_cast<int>(known_.size()) * o_.seeds;
    return r_;
  }

 private:
  Config config_of(const Places& these) const { return shortened_to(with_bad(d_, these), o_.steps); }

  // Each config once, whichever sets of settings ask for it.
  void measure(const std::vector<Places>& sets) {
    std::vector<Config> configs;
    std::vector<Places> missing;
    for (const Places& set : sets)
      if (!known_.contains(set) && std::ranges::find(missing, set) == missing.end())
        missing.push_back(set), configs.push_back(config_of(set));
    if (missing.empty()) return;
    const auto losses = runs_(configs);
    for (std::size_t i = 0; i < missing.size(); ++i) known_[missing[i]] = losses[i];
  }
  const std::vector<double>& losses(const Places& set) {
    measure({set});
    return known_.at(set);
  }
  PairedDifference over_good(const Places& set) { return paired(losses(set), r_.good); }
  PairedDifference over_bad(const Places& mended) { return paired(losses(without(all_, mended)), r_.bad); }

  bool hurts(const PairedDifference& p) const { return p.low > 0 && p.mean >= least_; }
  bool helps(const PairedDifference& p) const { return p.high < 0 && p.mean <= -least_; }

  void one_by_one() {
    std::vector<Places> sets;
    for (const std::size_t i : all_) sets.push_back({i}), sets.push_back(without(all_, {i}));
    measure(sets);
    std::vector<std::string> together;  // what heals and does not hurt by itself
    for (const std::size_t i : all_) {
      Verdict& v = r_.settings[i];
      v.alone = over_good({i}), v.heals = over_bad({i});
      if (hurts(*v.alone))
        v.verdict = "hurts alone";
      else if (helps(*v.heals))
        together.push_back(join(v.suspect.keys, " + ")), v.verdict = "heals alone";
      else if (helps(*v.alone) || hurts(*v.heals))
        v.verdict = "helps";
    }
    for (Verdict& v : r_.settings)
      if (v.verdict == "heals alone" && together.size() > 1)
        v.verdict = "only together with " + join(left_out(together, join(v.suspect.keys, " + ")));
  }

  // The others, for "together with".
  static std::vector<std::string> left_out(std::vector<std::string> names, const std::string& name) {
    std::erase(names, name);
    return names;
  }

  // The smallest part of `these` that still makes the good config worse: what cannot be told for a combination that is
  // refused counts as not worse.
  bool worse(const Places& these) {
    return refusal(with_bad(d_, these), components_).empty() && hurts(over_good(these));
  }
  Places smallest(Places these) {
    for (std::size_t n = 2; these.size() > 1;) {
      Places next;
      for (const bool mended : {false, true}) {
        if (mended && n == 2) continue;  // one half mended is the other half
        for (const Places& part : in_parts(these, n))
          if (const Places tried = mended ? without(these, part) : part; next.empty() && worse(tried)) {
            next = tried;
            n = mended ? std::max<std::size_t>(n - 1, 2) : 2;
          }
        if (!next.empty()) break;
      }
      if (next.empty() && n == these.size()) break;
      if (next.empty())
        n = std::min(2 * n, these.size());
      else
        these = next;
      n = std::min(n, these.size());
    }
    return these;
  }

  // One smallest part after the other, until what remains does no harm.
  void by_halves() {
    Places remaining = all_;
    while (!remaining.empty() && worse(remaining)) {
      const Places found = smallest(remaining);
      std::vector<std::string> names;
      for (const std::size_t i : found) names.push_back(join(d_.suspects[i].keys, " + "));
      for (const std::size_t i : found) {
        Verdict& v = r_.settings[i];
        v.verdict = found.size() == 1
                        ? "hurts alone"
                        : "only together with " + join(left_out(names, join(v.suspect.keys, " + ")));
        v.alone = over_good(found);
        v.heals = over_bad(found);
      }
      remaining = without(remaining, found);
    }
    if (!remaining.empty()) r_.rest = over_good(remaining);
  }

  std::string said() const {
    if (!r_.worse)
      return "the bad config is not worse within the interval; take more seeds or steps, or look at what was "
             "left aside";
    std::vector<std::string> culprits;
    for (const Verdict& v : r_.settings)
      if (v.verdict != "no effect seen" && v.verdict != "helps")
        culprits.push_back(join(v.suspect.keys, " + "));
    return culprits.empty() ? "no part of the difference is seen to hurt; take more seeds or steps"
                            : join(culprits);
  }

  const Differing& d_;
  const BisectOptions& o_;
  const Components& components_;
  const ShortRuns& runs_;
  Places all_;
  std::map<Places, std::vector<double>> known_;
  double least_ = 0;  // nats
  Bisection r_;
};

std::string difference_text(const PairedDifference& p) {
  if (std::isfinite(p.mean)) return fmt::format("{:+.3f} (95 %: {:+.3f} to {:+.3f})", p.mean, p.low, p.high);
  return p.mean > 0 ? "worse: a run broke" : "better: a run no longer breaks";
}

Json difference_json(const std::optional<PairedDifference>& p) {
  if (!p) return {};
  Json j = Json::object();
  j["mean"] = p->mean;
  j["ci95"] = Json(std::vector<double>{p->low, p->high});
  return j;
}

Json losses_json(const std::vector<double>& losses) {
  Json j = Json::object();
  j["loss"] = std::accumulate(losses.begin(), losses.end(), 0.0) / static_cast<double>(losses.size());
  j["losses"] = Json(losses);
  return j;
}

}  // namespace

int runs_expected(const Differing& d, const BisectOptions& o) {
  const std::size_t k = d.suspects.size();
  // Of two settings each alone is the other mended, and one is the bad config.
  std::size_t configs = 2 + (k == 1 ? 0 : k == 2 ? 2 : 2 * k);
  if (k > most_singles) {
    configs = 4;  // with what was found mended too, and with the rest
    for (std::size_t left = k; left > 1; left = (left + 1) / 2) configs += 2;
  }
  return static_cast<int>(configs) * o.seeds;
}

Bisection bisect(const Differing& d, const BisectOptions& o, const Components& components,
                 const ShortRuns& runs) {
  return Search(d, o, components, runs).result();
}

Bisection bisect(const Differing& d, const BisectOptions& o, const Components& components,
                 const Corpus& corpus) {
  const std::int64_t first = d.good.train.seed;
  std::mutex mutex;
  std::atomic<bool> stop = false;
  int run = 0;
  ThreadPool pool(o.at_a_time);
  const auto loss_of = [&](Config c, std::int64_t seed) {
    {
      const std::lock_guard lock(mutex);
      if (o.progress) o.progress(run, std::max(run + 1, runs_expected(d, o)));
      ++run;
    }
    const Scratch dir;
    c.train.seed = seed;
    TrainEvents events;
    events.interrupted = [&] { return stop || (o.interrupted && o.interrupted()); };
    const TrainResult r =
        train({.config = c, .out = dir.path / "run", .threads = 1}, components, corpus, events);
    if (r.status == "interrupted") throw Error("interrupted; nothing was written", 130);
    return r.status == "done" ? r.val_loss : HUGE_VAL;
  };
  return bisect(d, o, components, [&](const std::vector<Config>& configs) {
    const auto seeds = static_cast<std::size_t>(o.seeds);
    std::vector<std::vector<double>> losses(configs.size(), std::vector<double>(seeds));
    pool.run(static_cast<std::int64_t>(configs.size() * seeds), [&](std::int64_t i) {
      const std::size_t config = static_cast<std::size_t>(i) / seeds,
                        seed = static_cast<std::size_t>(i) % seeds;
      if (stop) return;
      try {
        losses[config][seed] = loss_of(configs[config], first + static_cast<std::int64_t>(seed));
      } catch (...) {
        stop = true;
        throw;
      }
    });
    return losses;
  });
}

std::string differing_text(const Differing& d, std::size_t width) {
  std::string out;
  for (const Suspect& s : d.suspects) {
    for (const std::string& key : s.keys)
      out += fmt::format("{}: {} -> {}\n", key, value_text(d.good, key), value_text(d.bad, key));
    if (!s.implied.empty())
      out += wrapped_behind("  ", fmt::format("with it {}, which follows", join(s.implied)), width) + "\n";
    if (!s.refused.empty())
      out += wrapped_behind("  ", fmt::format("tested together, as a part of them is refused: {}", s.refused),
                            width) +
             "\n";
  }
  for (const LeftAside& a : d.left_aside)
    out += wrapped_behind(fmt::format("left aside: {}: ", a.key), a.because, width) + "\n";
  return out;
}

std::string bisection_text(const Bisection& b, const Differing& d, const BisectOptions& o,
                           std::size_t width) {
  std::string out =
      wrapped(fmt::format("After {} steps the bad config's validation loss is {} of the good one's, in "
                          "nats a token; {} seeds.",
                          o.steps, difference_text(b.difference), o.seeds),
              width, 0) +
      "\n";
  if (!b.worse)
    return out + wrapped("It is " + b.because.substr(b.because.find("not worse")) + ".", width, 0) + "\n";
  for (const Verdict& v : b.settings) {
    std::vector<std::string> changes;
    for (const std::string& key : v.suspect.keys)
      changes.push_back(fmt::format("{} {} -> {}", key, value_text(d.good, key), value_text(d.bad, key)));
    out += "\n" + wrapped(join(changes) + ": " + v.verdict, width, 2) + "\n";
    if (v.alone) out += "  in the good config    " + difference_text(*v.alone) + "\n";
    if (v.heals) out += "  mended in the bad one " + difference_text(*v.heals) + "\n";
  }
  if (b.rest)
    out += "\n" +
           wrapped(fmt::format("All that have no effect, together in the good config: {}.",
                               difference_text(*b.rest)),
                   width, 0) +
           "\n";
  return out + "\n" + wrapped(fmt::format("What hurts: {} ({} runs).", b.because, b.runs), width, 0) + "\n";
}

Json bisection_json(const Bisection& b, const Differing& d, const BisectOptions& o) {
  Json j = Json::object(), settings = Json::array(), aside = Json::array();
  for (const Verdict& v : b.settings) {
    Json one = Json::object(), good = Json::object(), bad = Json::object();
    for (const std::string& key : v.suspect.keys) {
      const Field<Config>& f = config_field(key, "bisect");
      good[key] = field_to_json(f.get(d.good));
      bad[key] = field_to_json(f.get(d.bad));
    }
    one["keys"] = Json(v.suspect.keys);
    one["good"] = good, one["bad"] = bad;
    one["implied"] = Json(v.suspect.implied);
    if (!v.suspect.refused.empty()) one["together_because"] = v.suspect.refused;
    one["alone"] = difference_json(v.alone), one["heals"] = difference_json(v.heals);
    one["verdict"] = v.verdict;
    settings.push_back(one);
  }
  for (const LeftAside& a : d.left_aside) {
    Json one = Json::object();
    one["key"] = a.key, one["because"] = a.because;
    aside.push_back(one);
  }
  j["good"] = losses_json(b.good), j["bad"] = losses_json(b.bad);
  j["difference"] = difference_json(b.difference);
  j["worse"] = b.worse;
  j["because"] = b.because;
  j["settings"] = settings;
  j["rest"] = difference_json(b.rest);
  j["left_aside"] = aside;
  j["steps"] = o.steps, j["seeds"] = o.seeds, j["runs"] = b.runs;
  return j;
}

}  // namespace plumb
