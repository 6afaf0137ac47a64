// plumb bisect: which of the settings that differ hurts.
#include "plumb/study/bisect.h"

#include <fmt/format.h>

#include <filesystem>

#include "plumb/base/clock.h"
#include "plumb/base/error.h"
#include "plumb/cli/flags.h"
#include "plumb/cli/interrupt.h"
#include "plumb/cli/live.h"
#include "plumb/cli/say.h"

namespace plumb::cli {
namespace {

// A config, or a run's folder for the config that it was made with.
Config config_at(const std::string& what, const Flags& f) {
  Flags one = f;
  one.args = {what};
  return config_of(one);
}

}  // namespace

int bisect_command(const Flags& f) {
  if (f.args.size() != 2)
    bad_input(
        "name a good config or run and a bad one: `plumb bisect good.toml bad.toml`, or `plumb bisect runs/a "
        "runs/b`");
  const Config good = config_at(f.args[0], f), bad = config_at(f.args[1], f);
  const Differing d = differing_settings(good, bad, f.bisect_steps, Components{});
  note_faults(good, f.quiet);
  note_faults(bad, f.quiet);
  BisectOptions o{.steps = f.bisect_steps,
                  .seeds = static_cast<int>(f.seeds),
                  .at_a_time = 0,
                  .interrupted = interrupted};
  const bool halves = d.suspects.size() > most_singles;
  if (!f.quiet)
    say("{}{}{} runs of {} steps{}\n", differing_text(d, terminal_width(2)), halves ? "about " : "",
        runs_expected(d, o), o.steps,
        halves                  ? ", by halves, when one setting hurts; more when several do"
        : d.suspects.size() > 1 ? "; fewer when the bad config is not worse"
                                : "");
  const double begun = now_s();
  o.progress = [&](int run, int runs) {
    if (f.quiet) return;
    // What runs side by side has not ended yet; the first ones say nothing of the time.
    const double left = run ? (now_s() - begun) / run * (runs - run) : 0;
    say("run {} of {}{}\n", run + 1, runs, run > 1 ? ", " + duration(left) + " left" : "");
  };
  listen_for_interrupts();
  const Bisection b = bisect(d, o, Components{}, open_corpus(d.good.data.corpus, f.quiet));
  if (f.json)
    fmt::print("{}\n", bisection_json(b, d, o).dump());
  else
    fmt::print("{}", bisection_text(b, d, o, terminal_width()));
  return 0;
}

}  // namespace plumb::cli
