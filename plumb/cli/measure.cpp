// plumb measure: the instruments, on a config, a run or a checkpoint.
#include <fmt/format.h>

#include <algorithm>

#include "plumb/base/clock.h"
#include "plumb/base/error.h"
#include "plumb/base/text.h"
#include "plumb/base/wrap.h"
#include "plumb/cli/flags.h"
#include "plumb/cli/interrupt.h"
#include "plumb/cli/live.h"
#include "plumb/cli/say.h"
#include "plumb/instrument/instrument.h"

namespace plumb::cli {
namespace {
int list(const std::vector<Instrument>& all, bool json) {
  Json j = Json::array();
  for (const Instrument& i : all) {
    Json one = Json::object();
    one["name"] = std::string(i.name), one["measures"] = std::string(i.measures),
    one["how"] = std::string(i.how);
    j.push_back(one);
    if (!json)
      fmt::print("{}\n", wrapped_behind(fmt::format("{:<16} ", i.name), i.measures, terminal_width()));
  }
  if (json) {
    Json answer = Json::object();
    answer["instruments"] = std::move(j);
    fmt::print("{}\n", answer.dump());
  }
  return 0;
}

std::vector<Instrument> chosen(const std::vector<Instrument>& all, const Flags& f) {
  std::vector<std::string> known;
  for (const Instrument& i : all) known.emplace_back(i.name);
  std::vector<Instrument> wanted;
  for (std::size_t i = 1; i < f.args.size(); ++i) {
    const auto at = std::ranges::find(known, f.args[i]);
    if (at == known.end()) bad_input("{}", unknown_name("instrument", f.args[i], known));
    wanted.push_back(all[static_cast<std::size_t>(at - known.begin())]);
  }
  return wanted.empty() ? all : wanted;
}

}  // namespace

int measure_command(const Flags& f) {
  const auto all = instrument_table();
  if (f.args.empty()) return list(all, f.json);
  const auto wanted = chosen(all, f);
  const auto [config, checkpoint] = subject_of(f.args.front(), f, "measure");
  note_unread(f, "measure", {"train.seed", "train.threads", "train.precision"});
  note_faults(config, f.quiet);
  listen_for_interrupts();
  const Corpus corpus = open_corpus(config.data.corpus, f.quiet);  // the patient refers to it
  Patient patient(config, Components{}, corpus, checkpoint);
  InstrumentOptions o{.layer = f.layer, .top = f.top, .width = terminal_width(), .interrupted = interrupted};
  Json answer = Json::object();
  answer["step"] = patient.step;
  for (const Instrument& i : wanted) {
    if (!f.quiet && f.json) say("measuring {}\n", i.name);
    const double t0 = now_s();
    Reading r = i.read(patient, o);
    const double seconds = now_s() - t0;
    if (f.json) {
      r.json["us"] = seconds * 1e6;
      answer[std::string(i.name)] = std::move(r.json);
      continue;
    }
    fmt::print("{}\n{}\n",
               wrapped(fmt::format("{}: {} ({:.0f} ms)", i.name, i.measures, 1e3 * seconds), o.width, 2),
               r.text);
    std::fflush(stdout);
  }
  if (f.json) fmt::print("{}\n", answer.dump());
  return 0;
}

}  // namespace plumb::cli
