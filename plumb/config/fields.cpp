// The one table of the config's keys. Adding a key is adding its member in config.h and its row here.
#include "plumb/config/config.h"

namespace plumb {
namespace {

using Rows = std::vector<Field<Config>>;

// No machine reaches these; products of sizes are checked where they are formed (check_spec, the plan).
constexpr double max_size = 1 << 20;

void add_model(Rows& rows) {
  const auto row = [&](std::string key, auto member, FieldCheck check, std::string help) {
    rows.push_back(
        field_in<&Config::model, Config>("model", std::move(key), member, std::move(check), std::move(help)));
  };
  using M = ModelConfig;
  row("n_layer", &M::n_layer, between(1, 4096), "number of blocks");
  row("d_model", &M::d_model, between(1, max_size), "width of the residual stream");
  row("n_head", &M::n_head, between(1, 4096), "number of attention heads");
  row("n_kv_head", &M::n_kv_head, between(0, 4096),
      "heads of keys and values, a divisor of n_head; fewer: grouped queries (GQA), 1: MQA; default, and 0: "
      "n_head");
  row("d_head", &M::d_head, between(1, max_size), "width of a head; default: d_model / n_head");
  row("d_ff", &M::d_ff, between(1, max_size), "width of the feed-forward network");
  row("block_size", &M::block_size, between(1, max_size), "tokens a sequence");
  row("norm", &M::norm, any(), "normalisation");
  row("norm_eps", &M::norm_eps, at_least(0), "added to the variance (or mean square) before the root");
  row("norm_affine", &M::norm_affine, any(),
      "the norm has learned gains (and biases); default: true, but for instance norm");
  row("norm_bias", &M::norm_bias, any(), "false: gains alone, no biases");
  row("norm_gain", &M::norm_gain, one_of({"plain", "plus_one"}),
      "plus_one: stored as w from 0, used as 1 + w (Gemma)");
  row("norm_groups", &M::norm_groups, between(1, max_size), "group norm: groups of channels");
  row("norm_momentum", &M::norm_momentum, between(0, 1),
      "batch norm: weight of the newest statistics; 0: cumulative average");
  row("norm_alpha", &M::norm_alpha, at_least(1e-6), "dyt, derf: alpha at the start");
  row("norm_alpha_attention", &M::norm_alpha_attention, at_least(0),
      "dyt, derf: alpha at the start before attention; 0: norm_alpha");
  row("placement", &M::placement, any(), "where the norms sit");
  row("final_norm", &M::final_norm, any(), "a norm before the head; default: as the placement needs");
  row("residual", &M::residual, any(), "how a branch joins the residual stream");
  row("residual_lanes", &M::residual_lanes, between(1, 64), "hyper-connections: number of lanes");
  row("layer_scale_init", &M::layer_scale_init, at_least(0),
      "layer scale: gain at the start; 0: by depth (0.1 up to 18 layers, 1e-5 up to 24, 1e-6 beyond)");
  row("weight_param", &M::weight_param, any(), "parametrisation of the weight matrices");
  row("position", &M::position, any(), "position scheme");
  row("tied_embeddings", &M::tied_embeddings, any(),
      "the head shares the embedding's matrix; default: true, unless init.scheme unties it");
  row("embedding_scale", &M::embedding_scale, one_of({"none", "sqrt_d", "learned"}),
      "what token embeddings are multiplied by; learned: a scalar, sqrt(d_model) at the start");
  row("head_bias", &M::head_bias, any(), "logits have a bias; needs tied_embeddings = false (Phi)");
  row("embedding_norm", &M::embedding_norm, any(),
      "a norm of the token embeddings, before positions (BLOOM)");
  row("position_overflow", &M::position_overflow, one_of({"error", "clamp"}),
      "learned positions past block_size; clamp: they read the last row");
  row("alibi_form", &M::alibi_form, one_of({"exact", "falcon"}),
      "falcon: in bfloat16 and divided by sqrt(d_head), as Falcon has it");
  row("d_embed", &M::d_embed, between(0, max_size),
      "width of the token embeddings, projected to d_model and back before the head (OPT-350m); 0: d_model");
  row("logit_softcap", &M::logit_softcap, at_least(0),
      "c: logits become c tanh(z / c) (Gemma 2: 30); 0: off");
}

void add_attention(Rows& rows) {
  const auto row = [&](std::string key, auto member, FieldCheck check, std::string help) {
    rows.push_back(field_in<&Config::attention, Config>("model.attention", std::move(key), member,
                                                        std::move(check), std::move(help)));
  };
  using A = AttentionConfig;
  row("kind", &A::kind, any(), "kind of attention");
  row("scale", &A::scale, one_of({"auto", "sqrt", "mup", "none"}),
      "what scores are multiplied by; default: auto, 1/sqrt(d_head) except where another setting implies its "
      "own");
  row("bias", &A::bias, one_of({"false", "true", "qkv"}),
      "q, k, v and output projections have biases; qkv: not the output projection");
  row("qk_norm", &A::qk_norm, one_of({"none", "l2", "rms", "rms_all", "layer", "layer_heads"}),
      "normalises q and k before they meet: each head (l2 with a learned temperature, rms, layer; "
      "layer_heads: "
      "each head's own gains, no biases, StableLM 2) or all of a token's heads as one (rms_all)");
  row("softcap", &A::softcap, at_least(0),
      "c: scores become c tanh(s / c) before the mask (Gemma 2: 50); 0: off");
  row("window", &A::window, between(0, max_size),
      "keys that a query sees, itself included; 0: all before it");
  row("full_every", &A::full_every, between(0, 4096),
      "with a window: every so many layers the last sees all keys (Gemma 2: 2, Gemma 3: 6); 0: none does");
  row("qk_projection", &A::qk_projection, any(),
      "false: queries and keys are the input itself, cut into heads");
  row("value_projection", &A::value_projection, any(), "false: values are the input itself, cut into heads");
  row("output_projection", &A::output_projection, any(),
      "false: the heads, side by side, are what attention writes; n_head x d_head must be d_model");
}

void add_ffn(Rows& rows) {
  const auto row = [&](std::string key, auto member, FieldCheck check, std::string help) {
    rows.push_back(field_in<&Config::ffn, Config>("model.ffn", std::move(key), member, std::move(check),
                                                  std::move(help)));
  };
  using F = FfnConfig;
  row("kind", &F::kind, any(), "kind of feed-forward network");
  row("bias", &F::bias, any(), "its projections have biases");
  row("eight_thirds", &F::eight_thirds, any(),
      "d_ff is int(8 d_model / 3), rounded up to a multiple of multiple_of: a gated network then has the "
      "parameters of an "
      "ungated one with 4 d_model");
  row("multiple_of", &F::multiple_of, between(1, max_size),
      "eight_thirds: what d_ff is a multiple of (Llama: 256)");
  row("n_expert", &F::n_expert, between(1, 4096), "moe: number of experts");
  row("top_k", &F::top_k, between(1, 4096), "moe: experts a token");
  row("balance_loss", &F::balance_loss, at_least(0), "moe: weight of the load-balancing loss");
  row("router_z_loss", &F::router_z_loss, at_least(0), "moe: weight of the router's z-loss");
}

void add_rope(Rows& rows) {
  const auto row = [&](std::string key, auto member, FieldCheck check, std::string help) {
    rows.push_back(field_in<&Config::rope, Config>("model.rope", std::move(key), member, std::move(check),
                                                   std::move(help)));
  };
  using P = RopeConfig;
  row("base", &P::base, more_than(1), "pair i turns by base^(-2i/d) a position");
  row("local_base", &P::local_base, at_least(0),
      "base in the layers that have a window, without scaling (Gemma 3: 10000); 0: the same");
  row("layout", &P::layout, one_of({"half", "interleaved"}),
      "which columns are a pair; half: i and i + d/2 (Llama); interleaved: 2i and 2i + 1");
  row("fraction", &P::fraction, {.low = 0, .high = 1, .low_open = true}, "share of each head that turns");
  row("scaling", &P::scaling, one_of({"none", "linear", "ntk", "dynamic_ntk", "yarn"}),
      "how angles are stretched for sequences longer than original_block_size");
  row("factor", &P::factor, at_least(1), "by how much");
  row("original_block_size", &P::original_block_size, between(1, 1e9),
      "length that the angles were trained for");
}

void add_init(Rows& rows) {
  const auto row = [&](std::string key, auto member, FieldCheck check, std::string help) {
    rows.push_back(
        field_in<&Config::init, Config>("init", std::move(key), member, std::move(check), std::move(help)));
  };
  using I = InitConfig;
  row("scheme", &I::scheme, any(), "initialisation rule");
  row("distribution", &I::distribution, one_of({"normal", "uniform"}),
      "what weights are drawn from, at equal variance");
  row("std", &I::std, at_least(0), "standard deviation of the schemes that take one");
  row("residual_scale", &I::residual_scale, any(),
      "gpt2: times 1/sqrt(2 n_layer) on what writes to the residual stream");
  row("leaky_slope", &I::leaky_slope, at_least(0),
      "slope of leaky_relu below 0, and what kaiming takes it to be");
  row("base_d_model", &I::base_d_model, between(1, max_size),
      "mup: the width at which it is the standard parametrisation");
  row("base_d_head", &I::base_d_head, between(0, max_size),
      "mup: d_head at that width; 0: n_head is the same at every width");
}

void add_train(Rows& rows) {
  const auto row = [&](std::string key, auto member, FieldCheck check, std::string help) {
    rows.push_back(
        field_in<&Config::train, Config>("train", std::move(key), member, std::move(check), std::move(help)));
  };
  using T = TrainConfig;
  row("steps", &T::steps, between(0, 1e12), "optimiser updates");
  row("batch_size", &T::batch_size, between(1, max_size), "sequences a forward pass");
  row("accumulate", &T::accumulate, between(1, max_size), "forward passes an update");
  row("optimizer", &T::optimizer, any(), "update rule");
  row("lr", &T::lr, at_least(0), "learning rate after the warm-up");
  row("min_lr", &T::min_lr, at_least(0), "learning rate at the last step");
  row("warmup", &T::warmup, between(0, 1e12), "steps of linear warm-up");
  row("schedule", &T::schedule, one_of({"constant", "cosine", "linear", "wsd"}),
      "learning rate after the warm-up; wsd: constant, then linear over the last fifth of the steps");
  row("weight_decay", &T::weight_decay, at_least(0),
      "decoupled from the gradient, for every optimizer; never on norms, biases, or fewer than two dims");
  row("decay", &T::decay, one_of({"coupled", "independent"}),
      "coupled: a step's decay is weight_decay times the learning rate; independent: times lr(t) / lr, and "
      "weight_decay is then about 1e-4");
  row("beta1", &T::beta1, half_open(0, 1), "decay of the first moment");
  row("beta2", &T::beta2, half_open(0, 1), "decay of the second moment");
  row("adam_eps", &T::adam_eps, at_least(1e-30),
      "added to the root of the second moment; not 0, which a gradient of exactly 0 would divide by");
  row("momentum", &T::momentum, half_open(0, 1),
      "sgd, muon: share of the buffer that is kept; default: 0.9, muon 0.95");
  row("grad_clip", &T::grad_clip, at_least(0), "largest gradient norm; 0: no clipping");
  row("agc", &T::agc, at_least(0),
      "adaptive clipping, before grad_clip: largest norm of a row's (or vector's) gradient over its own; not "
      "of the head; 0: off");
  row("z_loss", &T::z_loss, at_least(0),
      "times the mean squared log-sum-exp of the logits, minimised with the loss and told apart from it");
  row("label_smoothing", &T::label_smoothing, half_open(0, 1),
      "share of the target that is spread over the vocabulary; losses that are told are without it");
  row("dropout", &T::dropout, half_open(0, 1),
      "share set to 0 in training, the rest scaled up: of attention's weights, of what both branches write, "
      "of "
      "the embedding; never of the stream; training losses are told with it");
  row("seed", &T::seed, at_least(0), "seed of initialisation, data order and dropout");
  row("precision", &T::precision, one_of({"fp32", "bf16", "bf16_pure", "fp16_pure"}),
      "bf16: products read bfloat16; bf16_pure, fp16_pure: everything stored is in that format (emulated: "
      "rounded after "
      "each operation)");
  row("norm_reduce", &T::norm_reduce, one_of({"fp32", "storage"}),
      "what layer and rms norm add up in; storage: precision's format, to see what breaks");
  row("threads", &T::threads, between(0, 1024),
      "worker threads; 0: all processors (the bits are the same for any number)");
  row("recompute", &T::recompute, between(0, 4096),
      "0: keep all activations; k: keep only what enters every k blocks, and compute the rest again in "
      "backward");
  row("eval_every", &T::eval_every, between(0, 1e12), "steps between validation losses; 0: only at the end");
  row("checkpoint_every", &T::checkpoint_every, between(0, 1e12),
      "steps between checkpoints; 0: only at the end");
  row("keep_checkpoints", &T::keep_checkpoints, between(1, 1e6), "newest checkpoints that are kept");
}

void add_lr_scale(Rows& rows) {
  for (std::size_t i = 0; i < n_role; ++i)
    rows.push_back(detail::make_field<Config>(
        "train.lr_scale", std::string(role_names[i]), at_least(0),
        "learning rate of these parameters, times this; 0 freezes them", [i](auto& c) -> auto& {
          return c.train.lr_scale.values[i];
        }));
}

void add_data(Rows& rows) {
  const auto row = [&](std::string key, auto member, FieldCheck check, std::string help) {
    rows.push_back(
        field_in<&Config::data, Config>("data", std::move(key), member, std::move(check), std::move(help)));
  };
  using D = DataConfig;
  row("corpus", &D::corpus, any(), "a corpus by name, or the path of a UTF-8 text file");
  row("tokenizer", &D::tokenizer, one_of({"char"}), "how text becomes tokens");
  row("vocab_size", &D::vocab_size, between(2, 1 << 24),
      "at most this many tokens; the corpus may have fewer");
  row("split", &D::split, inside(0, 1), "share of the tokens, from the start, that is trained on");
  row("rows", &D::rows, one_of({"window", "padded"}),
      "window: block_size tokens from anywhere; padded: one line of the text a row, the rest masked");
}

void add_probe(Rows& rows) {
  rows.push_back(field_in<&Config::probe, Config>("probe", "every", &ProbeConfig::every, between(0, 1e12),
                                                  "steps between probe rows in the trace; 0: none"));
  rows.push_back(
      field_in<&Config::probe, Config>("probe", "all_every", &ProbeConfig::all_every, between(0, 1e12),
                                       "steps between rows with the costly measurements too; 0: none"));
}

void add_fault(Rows& rows) {
  rows.push_back(field_in<&Config::fault, Config>(
      "fault", "inject", &FaultConfig::inject, any(),
      "what is made wrong on purpose, to teach and to test diagnoses; docs/faults.md has them all"));
  rows.push_back(field_in<&Config::fault, Config>(
      "fault", "strength", &FaultConfig::strength, between(-1e6, 1e6),
      "how wrong: 1 is the whole fault, near 0 hardly any; some are on or off whatever it is"));
}

Rows all_rows() {
  Rows rows;
  add_model(rows);
  add_attention(rows);
  add_ffn(rows);
  add_rope(rows);
  add_init(rows);
  add_train(rows);
  add_lr_scale(rows);
  add_data(rows);
  add_probe(rows);
  add_fault(rows);
  return rows;
}

}  // namespace

const std::vector<Field<Config>>& config_fields() {
  static const Rows rows = all_rows();
  return rows;
}

}  // namespace plumb
