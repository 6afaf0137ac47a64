// What a user may say about a run: TOML into typed fields, each remembering the file and line it came from.
// The defaults are the chapter's model. Component names (norm, residual, ffn kind …) are checked later,
// against the tables of components; here they are strings.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plumb/base/role.h"
#include "plumb/config/field.h"

namespace plumb {

struct ModelConfig {
  std::int64_t n_layer = 12, d_model = 128, n_head = 4;
  std::optional<std::int64_t> n_kv_head;  // n_head
  std::optional<std::int64_t> d_head;     // d_model / n_head
  std::int64_t d_ff = 256, block_size = 64;
  std::string norm = "layer";
  double norm_eps = 1e-5;
  std::optional<bool> norm_affine;  // true, but for instance
  bool norm_bias = true;
  std::string norm_gain = "plain";
  std::int64_t norm_groups = 8;
  double norm_momentum = 0.1, norm_alpha = 0.5, norm_alpha_attention = 0;
  std::string placement = "pre";
  std::optional<bool> final_norm;  // as the placement needs
  std::string residual = "add";
  std::int64_t residual_lanes = 2;
  double layer_scale_init = 0;
  std::string weight_param = "plain";
  std::string position = "learned";
  std::optional<bool> tied_embeddings;  // true, unless the init scheme unties
  std::string embedding_scale = "none";
  bool head_bias = false;
  bool embedding_norm = false;
  std::string position_overflow = "error", alibi_form = "exact";
  std::int64_t d_embed = 0;
  double logit_softcap = 0;
};

struct AttentionConfig {
  std::string kind = "mha";
  std::optional<std::string> scale;  // auto
  std::string bias = "false";
  std::string qk_norm = "none";
  double softcap = 0;
  std::int64_t window = 0, full_every = 0;
  bool qk_projection = true, value_projection = true, output_projection = true;
};

struct RopeConfig {
  double base = 10000, local_base = 0;
  std::string layout = "half";
  double fraction = 1;
  std::string scaling = "none";
  double factor = 4;
  std::int64_t original_block_size = 64;
};

struct FfnConfig {
  std::string kind = "gelu";
  bool bias = true;
  bool eight_thirds = false;
  std::int64_t multiple_of = 32;
  std::int64_t n_expert = 8, top_k = 2;
  double balance_loss = 0.01, router_z_loss = 0.001;
};

struct InitConfig {
  std::string scheme = "gpt2", distribution = "normal";
  double std = 0.02;
  bool residual_scale = true;
  double leaky_slope = 0.01;
  std::int64_t base_d_model = 128, base_d_head = 0;
};

struct TrainConfig {
  std::int64_t steps = 1200, batch_size = 32, accumulate = 1;
  std::string optimizer = "adamw";
  double lr = 3e-3, min_lr = 0.0;
  std::int64_t warmup = 100;
  std::string schedule = "cosine";
  double weight_decay = 0.1;
  std::string decay = "coupled";
  double beta1 = 0.9, beta2 = 0.95, adam_eps = 1e-8;
  std::optional<double> momentum;  // as the optimiser's authors have it
  double grad_clip = 1.0, agc = 0, z_loss = 0, label_smoothing = 0, dropout = 0;
  ByRole lr_scale;  // [train.lr_scale]: times lr, by a parameter's role; 0 freezes
  std::int64_t seed = 0;
  std::string precision = "fp32", norm_reduce = "fp32";
  std::int64_t threads = 0, recompute = 0, eval_every = 200, checkpoint_every = 200, keep_checkpoints = 2;
};

struct DataConfig {
  std::string corpus = "embedded";
  std::string tokenizer = "char";
  std::int64_t vocab_size = 1200;
  double split = 0.9;
  std::string rows = "window";
};

struct ProbeConfig {
  std::int64_t every = 25, all_every = 100;
};

/// What is made wrong on purpose, to teach and to test diagnoses. plumb/fault/ has the faults there are.
struct FaultConfig {
  std::vector<std::string> inject;
  double strength = 1;
};

struct Config {
  ModelConfig model;
  AttentionConfig attention;  // [model.attention]
  FfnConfig ffn;              // [model.ffn]
  RopeConfig rope;            // [model.rope]
  InitConfig init;
  TrainConfig train;
  DataConfig data;
  ProbeConfig probe;
  FaultConfig fault;

  /// Where each key was given: "train.lr" -> "run.toml:12" or "--set". A key that is not in it has its
  /// default.
  std::map<std::string, std::string, std::less<>> places;

  /// True when a user gave `key` ("train.lr") rather than leaving its default.
  bool given(std::string_view key) const { return places.contains(key); }
  /// "run.toml:12", "--set", or "the default" — for the end of an error's sentence.
  std::string where(std::string_view key) const;
};

/// Key -> the names that it may have.
using KnownNames = std::map<std::string, std::string, std::less<>>;

/// The one table of all keys, in the order of the documentation.
const std::vector<Field<Config>>& config_fields();

/// The row of `key` ("train.lr"), or nullptr.
const Field<Config>* find_config_field(std::string_view key);

/// The row of `key` ("train.lr"), or bad_input naming the nearest known key; `place` ("run.toml:12") is put
/// into that sentence.
const Field<Config>& config_field(std::string_view key, std::string_view place);

/// Reads TOML text; `name` is what places and errors call it. bad_input for a syntax error, an unknown
/// section or key (with the nearest known), a wrong type, or a value out of range: one sentence with
/// file:line.
Config parse_config(std::string_view text, std::string_view name);

/// Reads a file of at most 1 MiB the same way.
Config load_config(const std::filesystem::path& path);

/// `assignment` is "section.key=value", as after `--set`. Text needs no quotes. The same errors, with place
/// "--set".
void set_value(Config& config, std::string_view assignment);

/// The config as TOML that parse_config reads back to the same values (places aside). `commented` adds each
/// key's help, marks those that differ from
/// the default, and writes keys that nobody gave as comments. `names`: what else a key may be ("model.norm"
/// -> "batch, layer, none, rms"), known above this folder.
std::string dump_toml(const Config& config, bool commented, const KnownNames& names = {});

/// {"model": {…, "attention": {…}, "ffn": {…}}, "init": {…}, …}; unset optional keys are left out.
Json config_to_json(const Config& config);

/// The inverse (for traces and checkpoints): missing keys keep their defaults. bad_input, naming `name`, as
/// parse_config.
Config config_from_json(const Json& json, std::string_view name);

/// docs/config.md: every key, its type, default, range and help.
std::string config_markdown(const KnownNames& names);

}  // namespace plumb
