#include "plumb/cli/flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "plumb/base/error.h"
#include "plumb/base/text.h"
#include "plumb/cli/say.h"
#include "plumb/model/decoder.h"
#include "plumb/version.h"

namespace plumb::cli {
namespace {

using Options = void (*)(CLI::App&, Flags&);

struct Command {
  const char *name, *does, *example, *argument, *argument_help;
  int (*run)(const Flags&);
  Options options = nullptr;
  bool takes_set = true;
};

constexpr const char* config_help = "a TOML file; without one, the defaults";

void train_options(CLI::App& sub, Flags& f) {
  sub.add_option(
      "--out", f.out,
      "the run folder (runs/<time> when not given); with several configs, one folder in it for each");
  sub.add_option("--from", f.from,
                 "a run or checkpoint whose weights are the start; the config may be another");
  sub.add_flag("--no-probes", f.no_probes, "measure nothing but the loss");
}

void resume_options(CLI::App& sub, Flags& f) {
  sub.add_flag("--no-probes", f.no_probes, "measure nothing but the loss");
}

void bench_options(CLI::App& sub, Flags& f) {
  sub.add_option("--peer", f.peer,
                 "a command to time in turn with ours; it prints {\"ms_per_step\": x} as its last line");
  sub.add_option("--rounds", f.rounds, "step: rounds, the best of which counts; probes: 8 triples each")
      ->check(CLI::Range(1, 100));
  sub.add_option("--layers", f.layers, "depths to time, to see that time is linear in n_layer: 6,12,24,48");
}

void params_options(CLI::App& sub, Flags& f) {
  sub.add_option("--residual", f.residual,
                 "concat: what it would cost to concatenate where the residual stream adds")
      ->check(CLI::IsMember({"concat"}));
}

void sample_options(CLI::App& sub, Flags& f) {
  sub.add_option("--prompt", f.prompt, "what the text begins with (a new line when not given)");
  sub.add_option("--tokens", f.tokens,
                 "how many to add; default: up to block_size with learned positions, else 200")
      ->check(CLI::Range(1, 1'000'000));
  sub.add_option("--temperature", f.temperature, "divides the logits; 0: always the most probable")
      ->check(CLI::Range(0.0, 100.0));
  sub.add_option("--top-k", f.top_k, "draw from the k most probable; 0: from all")
      ->check(CLI::Range(0, 1'000'000));
  sub.add_option("--seed", f.seed, "the same seed gives the same text")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1'000'000'000'000}));
  sub.add_option("--samples", f.samples, "how many texts")->check(CLI::Range(1, 10'000));
  sub.add_option("--ids", f.ids,
                 "token ids in place of a prompt: 5,3,9; also of a checkpoint in Hugging Face's layout");
  sub.add_flag("--logits", f.logits, "with --ids: no sampling; the logits after each of them, as JSON");
}

void eval_options(CLI::App& sub, Flags& f) {
  sub.add_option("--block-sizes", f.block_sizes,
                 "lengths to evaluate at: 16,32,64 (the run's own when not given); learned positions end at "
                 "the trained length");
}

void inspect_options(CLI::App& sub, Flags& f) {
  sub.add_flag("--no-weights", f.no_weights, "answer from config, names and shapes alone");
  sub.add_option("--spectrum", f.spectrum,
                 "matrices whose smaller side is at most this get their spectrum; 0: none")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{16384}));
}

void doctor_options(CLI::App& sub, Flags& f) {
  sub.add_flag(
      "--confirm", f.confirm,
      "of a config or run: re-run with the first finding's mend, and with a generic one, from three seeds");
  sub.add_option("--confirm-steps", f.confirm_steps, "steps of each of the nine runs of --confirm")
      ->check(CLI::Range(std::int64_t{20}, std::int64_t{1'000'000}));
  sub.add_flag("--self-test", f.self_test,
               "how often it is right: faults in models drawn at random, and healthy models");
  sub.add_flag("--trained", f.trained,
               "with --self-test: also train the first case of each fault beside its healthy twin, and "
               "confirm findings");
  sub.add_option("--salt", f.salt, "with --self-test: another one draws other cases");
  sub.add_option("--cases", f.cases, "with --self-test: of each fault")->check(CLI::Range(1, 1000));
  sub.add_option("--healthy", f.healthy, "with --self-test: healthy models")->check(CLI::Range(1, 100'000));
  sub.add_option("--out", f.out, "with --self-test: the Markdown page to write");
}

void bisect_options(CLI::App& sub, Flags& f) {
  sub.add_option("--steps", f.bisect_steps, "steps of each run")
      ->check(CLI::Range(std::int64_t{20}, std::int64_t{1'000'000}));
  sub.add_option("--seeds", f.seeds, "runs of each config, whose losses are paired")
      ->check(CLI::Range(3, 30));
}

void measure_options(CLI::App& sub, Flags& f) {
  sub.add_option("--layer", f.layer, "only this block, from 0; default: all")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1'000'000}));
  sub.add_option("--top", f.top, "how many of a list are shown")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1000}));
}

void ablate_options(CLI::App& sub, Flags& f) {
  sub.add_option("--sequences", f.sequences, "held-out sequences, the same for every part")
      ->check(CLI::Range(std::int64_t{2}, std::int64_t{1'000'000}));
  sub.add_option("--draws", f.draws, "of noise on each part's parameters; 0: the ablations alone, no proxies")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1000}));
  sub.add_option("--slots", f.slots, "also FFN slots: dead, or how many of the least and the most active");
  sub.add_flag("--sort", f.sort, "the part that is needed most comes first");
  sub.add_option("--train", f.train_steps,
                 "train so many steps without each part, from the start, beside the config as it is")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000}));
  sub.add_option("--seeds", f.seeds, "with --train: of each")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1000}));
}

void runs_options(CLI::App& sub, Flags& f) {
  sub.add_option("--out", f.out, "the folder that holds the runs (runs)");
  sub.add_flag("--force", f.force, "rm: also runs that are unfinished");
}

void config_options(CLI::App& sub, Flags& f) {
  sub.add_option(
         "--scale-batch", f.scale_batch,
         "a batch so many times as large, and the learning rate that goes with it: times the square root for "
         "adamw and muon, times the same for sgd")
      ->check(CLI::Range(1e-6, 1e6));
}

void init_options(CLI::App& sub, Flags& f) {
  sub.add_option("--out", f.out, "the file to write (standard output when not given)");
}

constexpr Command commands[] = {
    {"init", "Writes a commented config to start from.",
     "plumb init > my.toml\n  plumb init tiny --out tiny.toml", "PRESET",
     "chapter, post, tiny, text, gpt2, llama, qwen3 or gemma2", init_command, init_options},
    {"train",
     "Trains a model and writes a run folder: trace, checkpoints, manifest. Several configs train side by "
     "side.",
     "plumb train --set model.placement=post --set train.steps=400\n  plumb train my.toml --set "
     "data.corpus=book.txt\n"
     "  plumb train pre.toml post.toml --out runs/both\n  plumb train small-lr.toml --from runs/first",
     "CONFIG", config_help, train_command, train_options},
    {"resume", "Goes on with a run from its last checkpoint, to the same bits as if it had never stopped.",
     "plumb resume runs/20260101-120000", "RUN", "its folder", resume_command, resume_options},
    {"sample", "Writes text with a trained model.",
     "plumb sample runs/first --prompt 'The ' --temperature 0.8\n  plumb sample runs/first --samples 10 "
     "--seed 1\n  plumb sample path/to/hf-model --ids 5,3,9 --logits",
     "RUN", "a run folder or a checkpoint", sample_command, sample_options, false},
    {"eval", "Validation loss of a trained model, also past the training length, and by position.",
     "plumb eval runs/first\n  plumb eval runs/first --block-sizes 16,32,64", "RUN",
     "a run folder or a checkpoint", eval_command, eval_options},
    {"profile", "The residual stream layer by layer: activations, gradients, entropy; theory beside it.",
     "plumb profile my.toml\n  plumb profile runs/first", "CONFIG|RUN|CHECKPOINT",
     "what to look at; without one, the defaults", profile_command},
    {"measure",
     "Instruments that need more than one look: logit lens, gradient by path length, sharpness, heads, FFN "
     "memory …; without arguments, lists them.",
     "plumb measure\n  plumb measure runs/first logit_lens\n  plumb measure runs/first neurons --layer 3 "
     "--top "
     "10",
     "MODEL [INSTRUMENT]", "a config, a run or a checkpoint; then instruments, or all of them",
     measure_command, measure_options},
    {"ablate",
     "Which parts does a trained model need: the loss with each switched off, and which cheaper number "
     "tells the "
     "same.",
     "plumb ablate runs/first\n  plumb ablate runs/first --sort --slots 8\n  plumb ablate my.toml --train "
     "200 --seeds 3",
     "RUN|CHECKPOINT|CONFIG", "what to look at; without one, the defaults", ablate_command, ablate_options},
    {"inspect",
     "Somebody else's model: nine questions, answered from config, names, shapes and weights; nothing "
     "in it "
     "is run.",
     "plumb inspect path/to/model\n  plumb inspect model.safetensors.index.json --no-weights\n  plumb "
     "inspect "
     "ckpt.pt --json",
     "CHECKPOINT [CONFIG]",
     "a folder, .safetensors, .bin, .pt, an index or a config.json; and a config, when it is not beside it",
     inspect_command, inspect_options, false},
    {"compare", "Runs side by side: curves, last values, and what differs in their configs.",
     "plumb compare runs/pre runs/post", "RUN",
     "two runs or more: run folders, traces, or other trainers' logs (TensorBoard, CSV, JSON Lines)",
     compare_command, nullptr, false},
    {"doctor", "What is wrong with a config (before it trains), a run, or a trace from anywhere; and why.",
     "plumb doctor my.toml\n  plumb doctor runs/first\n  plumb doctor trace.jsonl --json\n  plumb doctor "
     "my.toml --confirm\n  plumb doctor "
     "--self-test --salt today",
     "CONFIG|RUN|TRACE", "what to look at; without one, the defaults", doctor_command, doctor_options},
    {"bisect",
     "Which of the settings that differ between a good and a bad config hurts: paired short runs from the "
     "same "
     "seeds, each setting in and out by itself, or by halves when they are many.",
     "plumb bisect good.toml bad.toml\n  plumb bisect runs/good runs/bad --steps 400 --seeds 5", "GOOD BAD",
     "two configs or run folders", bisect_command, bisect_options},
    {"runs", "Lists the runs there are; `runs du` by size; `runs rm RUN` deletes.",
     "plumb runs\n  plumb runs post done\n  plumb runs du\n  plumb runs rm runs/first", "QUERY",
     "words that path, status or settings must contain; or du; or rm and folders", runs_command, runs_options,
     false},
    {"params", "Counts parameters by part, from the built tensors.",
     "plumb params --set model.n_layer=4 --json\n  plumb params --residual concat", "CONFIG", config_help,
     params_command, params_options},
    {"check",
     "The invariants that the lab stands on, measured: the tutorial's [a] to [f] beside what it printed, and "
     "identities.",
     "plumb check\n  plumb check d rope\n  plumb check --json", "NAME",
     "one or more of a to f, norms, rope, causality, cache …; without one, all", check_command, nullptr,
     false},
    {"explain",
     "What a component is: formula, purpose, pitfalls, paper, its keys, and a worked example; and what one "
     "sees may come "
     "from.",
     "plumb explain\n  plumb explain rms\n  plumb explain position\n  plumb explain the loss is stuck at ln "
     "V",
     "NAME|WORDS",
     "a component, a family, a cause or a symptom; or what is seen, in words; without one, what there is",
     explain_command, nullptr, false},
    {"bench", "Speed beside this machine's own limits.",
     "plumb bench step\n  plumb bench probes\n  plumb bench norms\n  plumb bench step --peer "
     "'/usr/bin/python3 "
     "bench/peers/torch/step.py --json'\n  plumb bench step "
     "--layers 6,12,24,48",
     "WHAT", "step, probes or norms", bench_command, bench_options},
    {"corpus", "Makes or fetches a corpus, keeps it, and says what is in it.",
     "plumb corpus embedded\n  plumb corpus tang\n  plumb corpus book.txt", "NAME",
     "a name, or a UTF-8 text file; without one, the names there are", corpus_command},
    {"config",
     "Prints every key with its meaning as a file to edit; with --json the resolved config and the model.",
     "plumb config > my.toml\n  plumb config my.toml --set model.norm=rms\n  plumb config my.toml "
     "--scale-batch 4 > big.toml",
     "CONFIG", config_help, config_command, config_options},
};

void add_options(CLI::App& sub, const Command& c, Flags& f) {
  sub.add_option(c.argument, f.args, c.argument_help);
  if (c.takes_set)
    sub.add_option("--set", f.set, "section.key=value, over what the file says; may be given many times")
        ->take_all()
        ->allow_extra_args(false);
  sub.add_flag("--json", f.json,
               "print one JSON object on standard output; words for people go to standard error");
  sub.add_flag("--quiet", f.quiet, "no progress");
  if (c.options) c.options(sub, f);
  sub.footer(as_called(std::string("Example:\n  ") + c.example));
}

}  // namespace

int run(int argc, char** argv) {
  Flags f;
  CLI::App app{"plumb: why does this deep network train, or not?"};
  app.set_version_flag("--version", std::string("plumb ") + kVersion);
  app.name("plumb");
  app.footer("Example:\n  plumb train --set train.steps=100\nEach command has --help with its own example.");
  app.require_subcommand(0, 1);
  for (const Command& c : commands) add_options(*app.add_subcommand(c.name, c.does), c, f);
  std::vector<std::string> known;
  for (const Command& c : commands) known.emplace_back(c.name);
  if (argc > 1 && argv[1][0] != '-' && std::ranges::find(known, argv[1]) == known.end())
    bad_input("{}", unknown_name("command", argv[1], known));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);  // help, version
    const bool of_command = argc > 1 && argv[1][0] != '-';
    bad_input("{}; `plumb {}--help` shows what there is", e.what(),
              of_command ? std::string(argv[1]) + " " : std::string());
  }
  if (app.get_subcommands().empty())
    bad_input("name a command: {}; `plumb --help` says what each does", join(known));
  const std::string name = app.get_subcommands().front()->get_name();
  for (const Command& c : commands)
    if (name == c.name) return c.run(f);
  return 2;
}

Config config_of(const std::string& file, const std::vector<std::string>& set) {
  std::error_code ignored;
  if (const std::filesystem::path path(file); std::filesystem::is_directory(path, ignored))
    bad_input("{} is a folder; name a config file in it{}", file,
              std::filesystem::exists(path / "config.toml", ignored)
                  ? fmt::format(", {}, or go on with that run by `plumb resume {}`",
                                (path / "config.toml").string(), file)
                  : "");
  if (file.find('=') != std::string::npos && !std::filesystem::exists(file, ignored))
    bad_input("'{}' is no config file; did you mean --set {}?", file, file);
  if (file.ends_with(".jsonl"))
    bad_input("{} is a trace or a log, and no config; `plumb compare {} OTHER` reads it", file, file);
  if (file.ends_with(".txt"))
    bad_input("{} is no config; to train on a text give --set data.corpus={}", file, file);
  Config c = file.empty() ? Config{} : load_config(file);
  for (const std::string& s : set) set_value(c, s);
  check_names(c, Components{});
  return c;
}

Config config_of(const Flags& f) {
  if (f.args.size() > 1)
    bad_input("one config file at most, but there are {}: '{}' and '{}'", f.args.size(), f.args[0],
              f.args[1]);
  // A run's folder stands for the config that it was made with.
  std::string file = f.args.empty() ? std::string() : f.args.front();
  std::error_code ignored;
  if (const auto made_with = std::filesystem::path(file) / "config.toml";
      !file.empty() && std::filesystem::is_regular_file(made_with, ignored))
    file = made_with.string();
  return config_of(file, f.set);
}

Config config_of_run(Config made_with, const std::vector<std::string>& set) {
  for (const std::string& s : set) {
    Config changed = made_with;
    set_value(changed, s);
    for (const auto& field : config_fields())
      if (field.get(changed) != field.get(made_with) &&
          ((field.section != "data" && field.section != "train" && field.section != "probe") ||
           field.path() == "data.vocab_size"))
        bad_input(
            "{} is part of a model that is trained already; --set can change what it reads and how "
            "(data.corpus, "
            "data.rows, train.batch_size, train.threads …)",
            field.path());
    made_with = std::move(changed);
  }
  return made_with;
}

}  // namespace plumb::cli
