// What a person may type after `plumb`. CLI11 is used in flags.cpp alone.
#pragma once
#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "plumb/config/config.h"
#include "plumb/data/baselines.h"
#include "plumb/data/text_corpus.h"
#include "plumb/spec/spec.h"

namespace plumb::cli {

struct Flags {
  std::vector<std::string> args;  // positional arguments of the command
  std::vector<std::string> set;   // --set section.key=value, in order
  std::string out;
  bool json = false, quiet = false;
  // bench
  std::string peer;  // a command that prints {"ms_per_step": x}
  int rounds = 5;
  std::string layers;  // "6,12,24,48"
  // params
  std::string residual;  // "concat"
  // train
  std::string from;  // a run whose weights are the start
  bool no_probes = false;
  // sample
  std::string prompt;
  std::int64_t tokens = 0, top_k = 0, samples = 1;
  double temperature = 1;
  std::int64_t seed = 0;
  std::string ids;  // "5,3,9"
  bool logits = false;
  // eval
  std::string block_sizes;  // "64,128,256"
  // inspect
  bool no_weights = false;
  std::int64_t spectrum = 1024;
  // config
  double scale_batch = 1;
  // doctor
  bool self_test = false, confirm = false, trained = false;
  std::int64_t confirm_steps = 200;
  std::string salt = "plumb";
  int cases = 3, healthy = 100;
  // bisect and ablate
  std::int64_t seeds = 3;
  // bisect
  std::int64_t bisect_steps = 200;
  // measure
  std::int64_t layer = -1, top = 5;
  // ablate
  std::int64_t sequences = 64, draws = 3, train_steps = 0;
  std::string slots;
  bool sort = false;
  // runs
  bool force = false;
};

/// Parses the command line and runs the command. Help and version go to standard output; a usage error is one
/// sentence on standard error and exit status 2.
int run(int argc, char** argv);

/// The config of a command: the file named by the only argument, if any, then every --set.
Config config_of(const Flags&);
Config config_of(const std::string& file, const std::vector<std::string>& set);

/// The config of a trained run with --set over it. bad_input for what would be another model.
Config config_of_run(Config made_with, const std::vector<std::string>& set);
/// Says of each --set of [train] and [probe] that is not `read` ("train.threads") that it changes nothing.
void note_unread(const Flags&, const char* command, std::initializer_list<std::string_view> read);

/// bad_input where `path` is something that another command reads: a trace, a config, a text.
void refuse_misplaced(const std::string& path, const std::string& command);

/// What profile, measure and ablate look at: a config that is built afresh, or a trained model with the config it was made with.
struct Subject {
  Config config;
  std::filesystem::path checkpoint;  // a run or a checkpoint; empty: a config
};
/// `what` as a person names it, with every --set.
Subject subject_of(const std::string& what, const Flags&, const std::string& command);

/// {"uniform": x, "unigram": x, …}
Json baselines_json(const Baselines&);

/// The corpus of that name, or a text file; what takes long is said on standard error.
Corpus open_corpus(const std::string& name, bool quiet);

/// `sample` on token ids: of a run, or of a checkpoint in Hugging Face's layout.
int sample_ids(const Flags&);
/// How many tokens are to follow `used` ones: --tokens, or up to where positions end, or 200. bad_input when they end before.
std::int64_t tokens_wanted(const Flags&, const DecoderSpec&, std::int64_t used);

/// The commands, one file each. Each returns the exit status.
int train_command(const Flags&);
int resume_command(const Flags&);
int sample_command(const Flags&);
int eval_command(const Flags&);
int profile_command(const Flags&);
int inspect_command(const Flags&);
int measure_command(const Flags&);
int ablate_command(const Flags&);
int compare_command(const Flags&);
int doctor_command(const Flags&);
int bisect_command(const Flags&);
int runs_command(const Flags&);
int init_command(const Flags&);
int check_command(const Flags&);
int explain_command(const Flags&);
int params_command(const Flags&);
int bench_command(const Flags&);
int corpus_command(const Flags&);
int config_command(const Flags&);

}  // namespace plumb::cli
