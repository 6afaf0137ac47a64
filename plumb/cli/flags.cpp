#include "plumb/cli/flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "plumb/base/error.h"
#include "plumb/base/text.h"
#include "plumb/version.h"

namespace plumb::cli {
namespace {

using Options = void (*)(CLI::App&, Flags&);

struct Command {
  const char *name, *does, *example, *argument, *argument_help;
  int (*run)(const Flags&);
  Options options = nullptr;
};

constexpr const char* config_help = "a TOML file; without one, the defaults";

void train_options(CLI::App& sub, Flags& f) {
  sub.add_option("--out", f.out, "the run folder (runs/<time> when not given); with several configs, one folder in it for each");
  sub.add_option("--from", f.from, "a run or checkpoint whose weights are the start; the config may be another");
  sub.add_flag("--no-probes", f.no_probes, "measure nothing but the loss");
}

void resume_options(CLI::App& sub, Flags& f) { sub.add_flag("--no-probes", f.no_probes, "measure nothing but the loss"); }

void bench_options(CLI::App& sub, Flags& f) {
  sub.add_option("--peer", f.peer, "a command to time in turn with ours; it prints {\"ms_per_step\": x} as its last line");
  sub.add_option("--rounds", f.rounds, "rounds, the best of which counts")->check(CLI::Range(1, 100));
  sub.add_option("--layers", f.layers, "depths to time, to see that time is linear in n_layer: 6,12,24,48");
}

constexpr Command commands[] = {
    {"train", "Trains a model and writes a run folder: trace, checkpoints, manifest. Several configs train side by side.",
     "plumb train --set model.placement=post --set train.steps=400\n  plumb train my.toml --set data.corpus=book.txt\n"
     "  plumb train pre.toml post.toml --out runs/both\n  plumb train small-lr.toml --from runs/first",
     "CONFIG", config_help, train_command, train_options},
    {"resume", "Goes on with a run from its last checkpoint, to the same bits as if it had never stopped.",
     "plumb resume runs/20260101-120000", "RUN", "its folder", resume_command, resume_options},
    {"params", "Counts parameters by part, from the built tensors.", "plumb params --set model.n_layer=4 --json",
     "CONFIG", config_help, params_command},
    {"bench", "Speed beside this machine's own limits.",
     "plumb bench step\n  plumb bench step --peer '/usr/bin/python3 bench/peers/torch/step.py --json'\n  plumb bench step "
     "--layers 6,12,24,48",
     "WHAT", "step", bench_command, bench_options},
    {"corpus", "Makes or fetches a corpus, keeps it, and says what is in it.",
     "plumb corpus embedded\n  plumb corpus tang\n  plumb corpus book.txt", "NAME",
     "a name, or a UTF-8 text file", corpus_command},
    {"config", "Prints every key with its meaning as a file to edit; with --json the resolved config and the model.",
     "plumb config > my.toml\n  plumb config my.toml --set model.norm=rms", "CONFIG",
     config_help, config_command},
};

void add_options(CLI::App& sub, const Command& c, Flags& f) {
  sub.add_option(c.argument, f.args, c.argument_help);
  sub.add_option("--set", f.set, "section.key=value, over what the file says; may be given many times")
      ->take_all()
      ->allow_extra_args(false);
  sub.add_flag("--json", f.json, "print one JSON object on standard output; words for people go to standard error");
  sub.add_flag("--quiet", f.quiet, "no progress");
  if (c.options) c.options(sub, f);
  sub.footer(std::string("Example:\n  ") + c.example);
}

}  // namespace

int run(int argc, char** argv) {
  Flags f;
  CLI::App app{"plumb: why does this deep network train, or not?"};
  app.set_version_flag("--version", std::string("plumb ") + kVersion);
  app.footer("Example:\n  plumb train --set train.steps=100\nEach command has --help with its own example.");
  app.require_subcommand(1);
  for (const Command& c : commands) add_options(*app.add_subcommand(c.name, c.does), c, f);
  std::vector<std::string> known;
  for (const Command& c : commands) known.emplace_back(c.name);
  if (argc > 1 && argv[1][0] != '-' && std::ranges::find(known, argv[1]) == known.end())
    bad_input("{}", unknown_name("command", argv[1], known));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);  // help, version
    std::fprintf(stderr, "plumb: %s; `plumb --help` shows what there is\n", e.what());
    return 2;
  }
  const std::string name = app.get_subcommands().front()->get_name();
  for (const Command& c : commands)
    if (name == c.name) return c.run(f);
  return 2;
}

Config config_of(const std::string& file, const std::vector<std::string>& set) {
  Config c = file.empty() ? Config{} : load_config(file);
  for (const std::string& s : set) set_value(c, s);
  return c;
}

Config config_of(const Flags& f) {
  if (f.args.size() > 1)
    bad_input("one config file at most, but there are {}: '{}' and '{}'", f.args.size(), f.args[0], f.args[1]);
  return config_of(f.args.empty() ? std::string() : f.args.front(), f.set);
}

}  // namespace plumb::cli
